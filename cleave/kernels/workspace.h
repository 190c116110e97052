#pragma once

#include "cleave/kernels/array.h"
#include "cleave/kernels/dot.h"

namespace cleave {

// What kernels allocate beside their results, from the strides of their operands alone: no element
// is read.

// Whether reshape gives a view; else it copies.
bool reshapes_as_view(const Array& array, const Shape& shape);
// Whether an elementwise loop packs the operand first.
bool loop_packs(const Array& operand);
// Of dot_general: operands that are converted or packed, and a result of another dtype.
int64_t dot_workspace(const Array& lhs, const Array& rhs, const DotDims& dims, DType result);

}  // namespace cleave
