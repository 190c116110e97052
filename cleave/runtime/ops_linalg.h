#pragma once

#include <string_view>
#include <vector>

#include "cleave/runtime/tensor.h"

namespace cleave {

// The product over the last dimension of a and the second to last of b; dimensions before them are
// batches and broadcast. A vector is a row on the left and a column on the right.
//   [8, 4] x [4, 3] -> [8, 3]     [2, 1, 8, 4] x [5, 4, 3] -> [2, 5, 8, 3]     [4] x [4] -> []
// Over a contracting dimension that is sharded, the result is a pending sum.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace cleave
