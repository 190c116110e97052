#pragma once

#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

// Which dimensions of the operands are paired. All others are free.
struct DotDims {
  std::vector<int64_t> lhs_batch, rhs_batch;
  std::vector<int64_t> lhs_contract, rhs_contract;
};

// The dtype in which a product is computed if no library takes the operands as they are: they are
// converted to it before, and the product to `result` after.
DType dot_compute_type(DType lhs, DType rhs, DType result);

// result[batch..., lhs free..., rhs free...] = sum over the contracted dimensions of lhs * rhs.
// Operands are any strided views; they are copied only if their free or contracted dimensions do
// not form a matrix that a library takes. Sums of F16 and BF16 are F32; for Bool, the sum is an or
// and the product an and; operands of a dtype other than `result` are converted first.
//   {2, 3, 4} . {2, 4, 5}, batch 0 x 0, contract 2 x 1 -> {2, 3, 5}
Array dot_general(const Array& lhs, const Array& rhs, const DotDims& dims, DType result);

}  // namespace cleave
