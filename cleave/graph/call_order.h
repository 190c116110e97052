#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// Throws UserError if functions refer to each other in a circle, by calls, as decompositions of
// composites or in any other attribute that names one:
//
//   "@f calls itself: @f -> @g -> @f; recursion is not supported"
//
// and if calls are nested more deeply, or written out make more ops, than any real module has:
// passes write calls out in place, and the interpreter takes its stack for them.
void verify_call_order(const Graph& graph);

}  // namespace cleave
