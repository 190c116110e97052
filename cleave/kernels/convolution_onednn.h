#pragma once

#include <optional>

#include "cleave/kernels/convolution.h"
#include "cleave/kernels/onednn.h"

// Convolutions as oneDNN sees them. Operands are in the order of conv_detail::Canonical.
namespace cleave::conv_detail {

// Where the elements of a tensor lie.
struct ConvLayout {
  DType dtype = DType::F32;
  Shape shape, strides;
};
inline ConvLayout layout_of(const Array& array) {
  return {array.dtype(), array.shape(), array.strides()};
}

// Whether it has the dtype and the number of dimensions, and there is enough to do.
bool suits_onednn(const ConvLayout& input, const ConvLayout& kernel, const ConvLayout& result);
// oneDNN pads with zeros but neither crops nor dilates the input. Returns what must be done before
// the call, by dimension of the canonical input, and takes it out of `window`.
std::optional<Window> take_padding(Window& window);
// Whether {n, g, c, spatial...} is {n, g * c, spatial...} without gaps; kernels keep their groups.
bool is_plain_tensor(const ConvLayout& tensor);
bool is_plain_kernel(const ConvLayout& kernel);

// One element for each output feature: an operand of what is done to the result.
dnnl::memory::desc describe_features(const ConvLayout& result);

// A convolution that is ready to run. Throws dnnl::error if this version has no such form.
struct OneDnnConvolution {
  dnnl::convolution_forward primitive;
  dnnl::memory::desc input, kernel, result;                       // of the operands
  dnnl::memory::desc own_input, own_kernel, own_result, scratch;  // as the primitive likes them
  dnnl::memory::desc bias;  // one element for each output feature
  bool is_slow = false;     // only the library's reference code takes it
};
// `attr`: what is done to the result; the scratch memory is the caller's.
OneDnnConvolution make_onednn(const ConvLayout& input, const ConvLayout& kernel,
                              const ConvLayout& result, const Window& window, bool has_bias = false,
                              dnnl::primitive_attr attr = {});

// What run_onednn holds beside operands and result, from their layouts alone; nothing if oneDNN
// does not take it.
std::optional<int64_t> onednn_workspace(ConvLayout input, ConvLayout kernel,
                                        const ConvLayout& result, Window window);

}  // namespace cleave::conv_detail
