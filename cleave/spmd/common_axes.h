#pragma once

#include <vector>

#include "cleave/rules/propagate/projection.h"

namespace cleave {

using AxesPerFactor = std::vector<AxisList>;

// One sharding for every factor of an op, so that all operands and results that have the factor can
// take it and no axis shards two factors. Tensors that differ from it are resharded.
//
//   matmul [{"x"}, {"y"}] x [{"y"}, {"x"}] -> [{"x"}, {}]     m: x   k: y   n: none
//
// If all tensors agree, it is what they have. For an op of two tensors and simple dimensions, it is
// what one of them has: the one without sharded permutation factors, then the larger, then the more
// sharded. Otherwise it is chosen greedily: of all prefixes of what a tensor has for a factor, the
// one with the most elements behind it is taken, its axes are taken out of the others, and so on.
// Factors that must be replicated hand their axes to batching factors with room for them.
// `tensor_sizes` are numbers of elements, of operands, then results.
AxesPerFactor find_common_axes(const Projection& projection, const Mesh& mesh,
                               const std::vector<int64_t>& tensor_sizes);

}  // namespace cleave
