#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// The value behind ops that only say how it lies (constraints, reshards), which change no element.
//
//   %1 = sdy.reshard %0 <@mesh, [{"x"}]>;  %2 = sdy.sharding_constraint %1 <@mesh, [{}]>     %2 ->
//   %0
ValueId past_layouts(const Graph& graph, ValueId value);

}  // namespace cleave
