#pragma once

#include <span>

#include "cleave/kernels/array.h"
#include "cleave/kernels/convolution.h"
#include "cleave/kernels/dot.h"

namespace cleave {

// What kernels allocate beside their results, from the strides of their operands alone: no element
// is read.

// Whether reshape gives a view; if not, it copies.
bool reshapes_as_view(const Array& array, const Shape& shape);
// Whether an elementwise loop packs the operand first.
bool loop_packs(const Array& operand);
// Bytes of the operands that an elementwise loop packs.
int64_t packed_operand_bytes(std::span<const Array> operands);
// Bytes of the operands that are no contiguous arrays: gather, scatter and sort copy them.
int64_t strided_operand_bytes(std::span<const Array> operands);
// Bytes for a dot_general: operands that are converted or packed, and a result of another dtype.
int64_t dot_workspace(const Array& lhs, const Array& rhs, const DotDims& dims, DType result);
// Bytes for a convolution: operands that are padded, mirrored or laid out anew. Buffers of
// libraries are not counted.
int64_t convolution_workspace(const Array& input, const Array& kernel, const ConvDims& dims,
                              const ConvWindow& window, DType result, const Shape& result_shape);

}  // namespace cleave
