#include "cleave/kernels/convolution.h"

#include "cleave/core/error.h"
#include "cleave/kernels/dot.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/gemm.h"

namespace cleave {
namespace {

int64_t element_offset(const Array& array) {
  return (array.raw() - array.buffer().get()) / byte_size(array.dtype());
}

// Dimensions in the order of `order`; a pair (d, g) with g > 1 is split into g major parts.
Array with_strides(const Array& array, Shape shape, Shape strides, int64_t offset = 0) {
  return Array(array.dtype(), std::move(shape), std::move(strides), element_offset(array) + offset,
               array.buffer());
}

// {groups, size / groups} of a dimension, groups major.
struct Split {
  int64_t outer_size, outer_stride, size, stride;
};
Split split(const Array& array, int64_t dim, int64_t groups) {
  const int64_t size = array.shape()[dim] / groups, stride = array.strides()[dim];
  return {groups, stride * size, size, stride};
}

}  // namespace

DType convolution_compute_type(DType input, DType kernel, DType result) {
  if (result == DType::Bool) return DType::I32;
  if (is_integer(result)) return result;
  if (input == DType::BF16 && kernel == DType::BF16 && has_bf16_gemm() &&
      (result == DType::BF16 || result == DType::F32))
    return DType::BF16;
  auto is_double = [](DType type) { return type == DType::F64 || type == DType::C128; };
  const bool wide = is_double(input) || is_double(kernel) || is_double(result);
  if (is_complex(input) || is_complex(result)) return wide ? DType::C128 : DType::C64;
  return wide ? DType::F64 : DType::F32;
}

Shape convolution_shape(const Shape& input, const Shape& kernel, const ConvDims& dims,
                        const ConvWindow& window) {
  Shape shape(input.size());
  const int64_t batch = input[dims.input_batch];
  shape[dims.output_batch] = batch == kDynamicSize ? batch : batch / window.batch_groups;
  shape[dims.output_feature] = kernel[dims.kernel_output_feature];
  for (size_t i = 0; i < dims.input_spatial.size(); ++i) {
    const int64_t size = input[dims.input_spatial[i]];
    const bool unknown = size == kDynamicSize || kernel[dims.kernel_spatial[i]] == kDynamicSize;
    shape[dims.output_spatial[i]] =
        unknown ? kDynamicSize : num_windows(size, window.window.dims[i]);
  }
  return shape;
}

Array convolution(const Array& input, const Array& kernel, const ConvDims& dims,
                  const ConvWindow& window, DType result_type) {
  const DType type = convolution_compute_type(input.dtype(), kernel.dtype(), result_type);
  const bool direct = type == DType::BF16;  // oneDNN writes the result's type
  const Array in = convert(input, type), ker = convert(kernel, type);
  Array result(direct ? result_type : type,
               convolution_shape(input.shape(), kernel.shape(), dims, window));
  if (result.num_elements() == 0) return Array(result_type, result.shape());
  if (input.num_elements() == 0 || kernel.num_elements() == 0)
    return Array::zeros(result_type, result.shape());

  const conv_detail::Canonical conv = conv_detail::canonical(in, ker, result, dims, window);
  if (!conv_detail::run_onednn(conv)) conv_detail::run_windows(conv);
  return convert(result, result_type);
}

namespace conv_detail {

Canonical canonical(const Array& in, const Array& ker, const Array& result, const ConvDims& dims,
                    const ConvWindow& window) {
  Canonical conv;
  conv.window = window.window;
  const int64_t groups = window.feature_groups * window.batch_groups;
  const size_t spatial = dims.input_spatial.size();

  // Input: feature groups split the features, batch groups the batch.
  const Split features = split(in, dims.input_feature, window.feature_groups);
  const Split batches = split(in, dims.input_batch, window.batch_groups);
  Shape shape{batches.size, groups, features.size};
  Shape strides{batches.stride,
                window.batch_groups > 1 ? batches.outer_stride : features.outer_stride,
                features.stride};
  for (int64_t d : dims.input_spatial) {
    shape.push_back(in.shape()[d]);
    strides.push_back(in.strides()[d]);
  }
  conv.input = with_strides(in, shape, strides);

  const Split outputs = split(ker, dims.kernel_output_feature, groups);
  shape = {groups, outputs.size, ker.shape()[dims.kernel_input_feature]};
  strides = {outputs.outer_stride, outputs.stride, ker.strides()[dims.kernel_input_feature]};
  int64_t offset = 0;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t d = dims.kernel_spatial[i], size = ker.shape()[d], stride = ker.strides()[d];
    const bool reversed = i < window.reversed.size() && window.reversed[i];
    shape.push_back(size);
    strides.push_back(reversed ? -stride : stride);
    if (reversed) offset += (size - 1) * stride;
  }
  conv.kernel = with_strides(ker, shape, strides, offset);

  const Split result_features = split(result, dims.output_feature, groups);
  shape = {result.shape()[dims.output_batch], groups, result_features.size};
  strides = {result.strides()[dims.output_batch], result_features.outer_stride,
             result_features.stride};
  for (int64_t d : dims.output_spatial) {
    shape.push_back(result.shape()[d]);
    strides.push_back(result.strides()[d]);
  }
  conv.result = with_strides(result, shape, strides);

  return conv;
}

void run_windows(const Canonical& conv) {
  const size_t spatial = conv.window.dims.size();
  Window all;
  all.dims.resize(3);
  all.dims.insert(all.dims.end(), conv.window.dims.begin(), conv.window.dims.end());
  const Array padded = pad_and_dilate(conv.input, all, Array::zeros(conv.input.dtype(), {}));
  // {n, g, c, out..., 1, 1, 1, window...}: without the three ones.
  const Array windows = window_view(padded, all);
  Shape shape(windows.shape().begin(), windows.shape().begin() + 3 + static_cast<int64_t>(spatial));
  Shape strides(windows.strides().begin(),
                windows.strides().begin() + 3 + static_cast<int64_t>(spatial));
  for (size_t i = 0; i < spatial; ++i) {
    shape.push_back(windows.shape()[6 + spatial + i]);
    strides.push_back(windows.strides()[6 + spatial + i]);
  }
  const Array lhs = with_strides(windows, shape, strides);
  DotDims dims{{1}, {0}, {2}, {2}};
  for (size_t i = 0; i < spatial; ++i) {
    dims.lhs_contract.push_back(static_cast<int64_t>(3 + spatial + i));
    dims.rhs_contract.push_back(static_cast<int64_t>(3 + i));
  }
  // {g, n, out..., o} -> {n, g, o, out...}
  const Array product = dot_general(lhs, conv.kernel, dims, conv.result.dtype());
  Shape order{1, 0, static_cast<int64_t>(2 + spatial)};
  for (size_t i = 0; i < spatial; ++i) order.push_back(static_cast<int64_t>(2 + i));
  copy_elements(product.transpose(order), conv.result);
}

}  // namespace conv_detail
}  // namespace cleave
