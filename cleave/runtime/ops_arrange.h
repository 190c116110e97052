#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/runtime/tensor.h"

// More ops that move elements; see ops_shape.h.
namespace cleave {

Tensor move_dim(const Tensor& x, int64_t from, int64_t to);
// At most `parts` parts, all of one size but the last, which may be smaller.
std::vector<Tensor> chunk(const Tensor& x, int64_t parts, int64_t dim = 0);
// Turned by `times` right angles, from the first dimension to the second.
Tensor rot90(const Tensor& x, int64_t times = 1, std::pair<int64_t, int64_t> dims = {0, 1});

// What stands outside, of 1 2 3:
//   Edge 1 1|1 2 3|3 3     Reflect 3 2|1 2 3|2 1     Symmetric 2 1|1 2 3|3 2     Wrap 2 3|1 2 3|1 2
enum class PadMode : uint8_t { Edge, Reflect, Symmetric, Wrap };
// `low` and `high` elements before and after each dimension.
Tensor pad(const Tensor& x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
           PadMode mode);

// Windows of `size` elements along a dimension, `step` apart; the elements of a window are a new
// last dimension.
//   unfold([2, 10], 1, 4, 3) -> [2, 3, 4]
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step = 1);
// x[i + 1] - x[i] along a dimension, `times` times.
Tensor diff(const Tensor& x, int64_t times = 1, int64_t dim = -1);

}  // namespace cleave
