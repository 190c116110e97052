#include <algorithm>

#include "cleave/kernels/convolution_onednn.h"
#include "cleave/kernels/dense.h"
#include "cleave/kernels/workspace.h"

namespace cleave {
namespace {

// Nothing if oneDNN does not take the convolution in the dtype of its operands.
std::optional<int64_t> direct_workspace(const Array& input, const Array& kernel,
                                        const ConvDims& dims, const ConvWindow& window,
                                        DType result, const Shape& result_shape) {
  if (input.dtype() != result || kernel.dtype() != result ||
      convolution_compute_type(result, result, result) != result)
    return std::nullopt;
  // A view of nothing: only its layout is looked at.
  const Array target(result, result_shape, row_major_strides(result_shape), 0, Buffer());
  const conv_detail::Canonical conv = conv_detail::canonical(input, kernel, target, dims, window);
  return conv_detail::onednn_workspace(conv_detail::layout_of(conv.input),
                                       conv_detail::layout_of(conv.kernel),
                                       conv_detail::layout_of(conv.result), conv.window);
}

}  // namespace

int64_t convolution_workspace(const Array& input, const Array& kernel, const ConvDims& dims,
                              const ConvWindow& window, DType result, const Shape& result_shape) {
  if (input.num_elements() == 0 || kernel.num_elements() == 0 || num_elements(result_shape) == 0)
    return 0;
  if (const auto bytes = direct_workspace(input, kernel, dims, window, result, result_shape))
    return *bytes;
  int64_t bytes = 0;
  auto padded = static_cast<int64_t>(input.num_bytes());
  bool is_padded = false;
  for (size_t i = 0; i < dims.input_spatial.size(); ++i) {
    const Window::Dim& dim = window.window.dims[i];
    if (dim.base_dilation == 1 && dim.low >= 0 && dim.high >= 0) continue;
    const int64_t size = input.shape()[dims.input_spatial[i]];
    if (size == 0) return 0;
    padded = padded / size *
             std::max<int64_t>(0, (size - 1) * dim.base_dilation + 1 + dim.low + dim.high);
    is_padded = true;
  }
  if (is_padded || !is_dense(input.shape(), input.strides())) bytes += padded;
  const bool mirrored = std::any_of(window.reversed.begin(), window.reversed.end(),
                                    [](bool reversed) { return reversed; });
  if (mirrored || !is_dense(kernel.shape(), kernel.strides()))
    bytes += static_cast<int64_t>(kernel.num_bytes());
  // The library wants channels innermost, and kernels in blocks.
  bytes += static_cast<int64_t>(kernel.num_bytes());
  const bool channels_last = !is_padded && input.strides()[dims.input_feature] == 1;
  if (!channels_last) bytes += padded;
  if (dims.output_feature + 1 != static_cast<int64_t>(result_shape.size()))
    bytes += num_elements(result_shape) * byte_size(result);
  return bytes;
}

}  // namespace cleave
