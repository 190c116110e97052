#pragma once

#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

// The associative and commutative operators that reductions know without running a region. Bool
// treats Sum and Max as Or, Prod and Min as And.
enum class Reducer : uint8_t { Sum, Prod, Max, Min, And, Or, Xor };

// Whether reduce() takes the pair: And, Or and Xor need integers or Bool, Max and Min an order.
bool has_reduce(Reducer reducer, DType dtype);

// Folds `dims` away, beginning with `init` (a scalar of the same dtype). Any strides; F16 and BF16
// are folded in F32; a NaN wins over numbers in Max and Min.
//   {2, 3, 4} over {1} -> {2, 4}
Array reduce(const Array& input, const std::vector<int64_t>& dims, Reducer reducer,
             const Array& init);

// Folds each of `rows` rows of `cols` contiguous elements into out[row], beginning with `init`: the
// bits that reduce() gives, without an allocation. F16 must be widened first.
void fold_rows(DType dtype, Reducer reducer, const std::byte* in, int64_t rows, int64_t cols,
               const std::byte* init, std::byte* out);

// The value that leaves all others as they are: 0 for Sum, the lowest value for Max, ...
Array reduce_identity(Reducer reducer, DType dtype);

}  // namespace cleave
