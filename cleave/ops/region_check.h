#pragma once

#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Throws a UserError that begins with the op's name unless region `index` exists, takes scalars of
// these types and returns scalars of those:
//
//   require_scalar_region(graph, node, 0, "comparator", {F32, F32}, {Bool})
//   -> "stablehlo.sort: the comparator must be (f32, f32) -> i1, got (tensor<f32>, tensor<i32>)
//       -> tensor<i1>"
void require_scalar_region(const Graph& graph, const Node& node, size_t index, const char* what,
                           const std::vector<DType>& args, const std::vector<DType>& results);

}  // namespace cleave
