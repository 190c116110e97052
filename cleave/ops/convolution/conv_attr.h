#pragma once

#include <string_view>

#include "cleave/graph/graph.h"
#include "cleave/kernels/convolution.h"

namespace cleave {

// Attribute dimension_numbers, #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>: a struct
// with the fields of MLIR's raw form (input_batch_dimension, input_spatial_dimensions, ...), or
// that text. Throws UserError if it is missing or malformed.
inline constexpr std::string_view kConvDims = "dimension_numbers";
ConvDims conv_dims(const Node& node);
Attribute conv_dims_attr(const ConvDims& dims);

// window_strides, padding, lhs_dilation, rhs_dilation, window_reversal and the group counts, with
// the kernel's sizes. `kernel` is the shape of operand 1.
ConvWindow conv_window(const Node& node, const ConvDims& dims, const Shape& kernel);

}  // namespace cleave
