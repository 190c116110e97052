#pragma once

#include <optional>

#include "cleave/graph/graph.h"

namespace cleave::plan {

// How often the body of a stablehlo.while runs, where it counts a carried integer from a constant
// to a constant in constant steps, as scan and fori_loop do; nothing where that is not so.
//
//   while(%i = 0) cond { compare LT, %i, 12 } do { add %i, 1 }    ->  12
//   while(%i = 0) cond { compare LT, %i, 10 } do { add %i, 3 }    ->  4
std::optional<int64_t> trip_count(const Graph& graph, const Node& loop);

}  // namespace cleave::plan
