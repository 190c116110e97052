#pragma once

#include <span>
#include <vector>

#include "cleave/graph/op_def.h"

namespace cleave {

// Ops on narrow elements (f8, i4, ...; cleave/kernels/narrow.h) run in a wide type: operands are
// widened, the same op runs on them, and its results are rounded once. An op that only moves
// elements, or that converts them, runs as it is.
//
//   add : tensor<4xf8E5M2>   ->   convert to f32, add : tensor<4xf32>, convert to f8E5M2
//
// The kernel for a node; null if it has none for such elements.
EvalFn narrow_eval(const Graph& graph, const Node& node);

// Whether an operand or result of the node has narrow elements.
bool has_narrow_elements(const Graph& graph, const Node& node);

}  // namespace cleave
