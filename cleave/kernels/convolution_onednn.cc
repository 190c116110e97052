#include "cleave/kernels/convolution_onednn.h"

#include <algorithm>
#include <string_view>

#include "cleave/kernels/dense.h"
#include "cleave/kernels/library_threads.h"

namespace cleave::conv_detail {
namespace {

using dnnl::memory;

bool mergeable(const ConvLayout& a, size_t d) {
  return a.shape[d] == 1 || a.shape[d + 1] == 1 ||
         a.strides[d] == a.strides[d + 1] * a.shape[d + 1];
}

// {n, g, c, spatial...} as {n, g * c, spatial...}
ConvLayout merged(const ConvLayout& tensor) {
  ConvLayout result{tensor.dtype, {}, {}};
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (d == 2) {
      result.shape.back() *= tensor.shape[d];
      result.strides.back() = tensor.shape[2] == 1 ? tensor.strides[1] : tensor.strides[2];
    } else {
      result.shape.push_back(tensor.shape[d]);
      result.strides.push_back(tensor.strides[d]);
    }
  }
  return result;
}

// Without the dimension of groups where there is one group.
ConvLayout without_groups(const ConvLayout& kernel) {
  ConvLayout result = kernel;
  if (kernel.shape[0] > 1) return result;
  result.shape.erase(result.shape.begin());
  result.strides.erase(result.strides.begin());
  return result;
}

memory::desc describe(const ConvLayout& tensor) {
  // Strides of dimensions of one element do not matter, but oneDNN wants them plausible.
  memory::dims plausible = tensor.strides;
  int64_t largest = 1;
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    if (tensor.shape[d] != 1) largest = std::max(largest, tensor.strides[d] * tensor.shape[d]);
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    if (tensor.shape[d] == 1) plausible[d] = largest;
  return memory::desc(tensor.shape, onednn_type(tensor.dtype), plausible);
}

memory::desc any_layout(const ConvLayout& tensor) {
  return memory::desc(tensor.shape, onednn_type(tensor.dtype), memory::format_tag::any);
}

}  // namespace

bool suits_onednn(const ConvLayout& input, const ConvLayout& kernel, const ConvLayout& result) {
  // Below this much work, setting the library up costs more than the convolution.
  constexpr int64_t kTinyWork = 4096;
  const int64_t outputs = kernel.shape[0] * kernel.shape[1];
  if (num_elements(result.shape) * (num_elements(kernel.shape) / outputs) <= kTinyWork)
    return false;
  const size_t spatial = input.shape.size() - 3;
  return (input.dtype == DType::F32 || input.dtype == DType::BF16) && spatial >= 1 && spatial <= 3;
}

std::optional<Window> take_padding(Window& window) {
  Window before;
  before.dims.resize(3 + window.dims.size());
  bool any = false;
  for (size_t i = 0; i < window.dims.size(); ++i) {
    Window::Dim& dim = window.dims[i];
    if (dim.base_dilation == 1 && dim.low >= 0 && dim.high >= 0) continue;
    before.dims[3 + i].base_dilation = dim.base_dilation;
    before.dims[3 + i].low = dim.low;
    before.dims[3 + i].high = dim.high;
    dim.base_dilation = 1;
    dim.low = dim.high = 0;
    any = true;
  }
  return any ? std::optional(before) : std::nullopt;
}

bool is_plain_tensor(const ConvLayout& tensor) {
  if (!mergeable(tensor, 1)) return false;
  const ConvLayout plain = merged(tensor);
  return is_dense(plain.shape, plain.strides);
}

memory::desc describe_features(const ConvLayout& result) {
  memory::dims dims(result.shape.size() - 1, 1), strides(dims.size(), 1);
  dims[1] = result.shape[1] * result.shape[2];
  strides[0] = dims[1];
  return memory::desc(dims, onednn_type(result.dtype), strides);
}

bool is_plain_kernel(const ConvLayout& kernel) { return is_dense(kernel.shape, kernel.strides); }

OneDnnConvolution make_onednn(const ConvLayout& input, const ConvLayout& kernel,
                              const ConvLayout& result, const Window& window, bool has_bias,
                              dnnl::primitive_attr attr) {
  memory::dims strides, dilations, low, high;
  for (const Window::Dim& dim : window.dims) {
    strides.push_back(dim.stride);
    dilations.push_back(dim.dilation - 1);
    low.push_back(dim.low);
    high.push_back(dim.high);
  }
  const ConvLayout in = merged(input), ker = without_groups(kernel), out = merged(result);
  OneDnnConvolution conv;
  conv.input = describe(in);
  conv.kernel = describe(ker);
  conv.result = describe(out);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::convolution_auto;
  if (has_bias)
    conv.bias = memory::desc({out.shape[1]}, onednn_type(result.dtype), memory::format_tag::x);
  const dnnl::convolution_forward::desc op =
      has_bias ? dnnl::convolution_forward::desc(kind, algorithm, any_layout(in), any_layout(ker),
                                                 conv.bias, any_layout(out), strides, dilations,
                                                 low, high)
               : dnnl::convolution_forward::desc(kind, algorithm, any_layout(in), any_layout(ker),
                                                 any_layout(out), strides, dilations, low, high);
  const dnnl::convolution_forward::primitive_desc desc(op, attr, onednn_engine());
  conv.primitive = dnnl::convolution_forward(desc);
  conv.own_input = desc.src_desc();
  conv.own_kernel = desc.weights_desc();
  conv.own_result = desc.dst_desc();
  conv.scratch = desc.scratchpad_desc();
  conv.is_slow = std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos;
  return conv;
}

namespace {

// Null: a form that this version does not have.
OneDnnConvolution* prepared(const ConvLayout& input, const ConvLayout& kernel,
                            const ConvLayout& result, const Window& window) {
  apply_library_threads();
  thread_local PrimitiveCache<OneDnnConvolution> cache;
  std::vector<int64_t> key{static_cast<int64_t>(input.dtype), static_cast<int64_t>(result.dtype),
                           library_threads()};
  for (const ConvLayout* layout : {&input, &kernel, &result}) {
    key.insert(key.end(), layout->shape.begin(), layout->shape.end());
    key.insert(key.end(), layout->strides.begin(), layout->strides.end());
  }
  for (const Window::Dim& dim : window.dims)
    key.insert(key.end(), {dim.stride, dim.dilation, dim.low, dim.high});
  try {
    return &cache.get(key, [&] { return make_onednn(input, kernel, result, window); });
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

int64_t bytes_of(const ConvLayout& layout) {
  return num_elements(layout.shape) * byte_size(layout.dtype);
}

ConvLayout packed(const ConvLayout& layout) {
  return {layout.dtype, layout.shape, row_major_strides(layout.shape)};
}

}  // namespace

std::optional<int64_t> onednn_workspace(ConvLayout input, ConvLayout kernel,
                                        const ConvLayout& result, Window window) {
  if (!suits_onednn(input, kernel, result) || !is_plain_tensor(result)) return std::nullopt;
  int64_t bytes = 0;
  if (const auto before = take_padding(window)) {
    const size_t first = input.shape.size() - window.dims.size();
    for (size_t i = 0; i < window.dims.size(); ++i) {
      const Window::Dim& dim = before->dims[before->dims.size() - window.dims.size() + i];
      int64_t& size = input.shape[first + i];
      size = std::max<int64_t>(0, (size - 1) * dim.base_dilation + 1 + dim.low + dim.high);
    }
    input = packed(input);
    bytes += bytes_of(input);
  }
  if (!is_plain_tensor(input)) {
    input = packed(input);
    bytes += bytes_of(input);
  }
  if (!is_plain_kernel(kernel)) {
    kernel = packed(kernel);
    bytes += bytes_of(kernel);
  }
  const OneDnnConvolution* entry = prepared(input, kernel, result, window);
  if (!entry) return std::nullopt;
  auto add = [&](const memory::desc& desc) { bytes += static_cast<int64_t>(desc.get_size()); };
  if (entry->input != entry->own_input) add(entry->own_input);
  if (entry->kernel != entry->own_kernel) add(entry->own_kernel);
  if (entry->result != entry->own_result) add(entry->own_result);
  add(entry->scratch);
  return bytes;
}

bool run_onednn(const Canonical& conv) {
  if (!suits_onednn(layout_of(conv.input), layout_of(conv.kernel), layout_of(conv.result)) ||
      !is_plain_tensor(layout_of(conv.result)))
    return false;
  Window window = conv.window;
  Array input = conv.input, kernel = conv.kernel;
  if (const auto before = take_padding(window))
    input = pad_and_dilate(input, *before, Array::zeros(input.dtype(), {}));
  if (!is_plain_tensor(layout_of(input))) input = input.copy();
  if (!is_plain_kernel(layout_of(kernel))) kernel = kernel.copy();

  OneDnnConvolution* entry =
      prepared(layout_of(input), layout_of(kernel), layout_of(conv.result), window);
  if (!entry) return false;

  dnnl::engine& engine = onednn_engine();
  dnnl::stream& stream = onednn_stream();
  auto reordered = [&](const Array& array, const memory::desc& has, const memory::desc& wants,
                       Buffer& keep) {
    memory source(has, engine, array.raw());
    if (has == wants) return source;
    keep = allocate(wants.get_size());
    memory target(wants, engine, keep.get());
    dnnl::reorder(source, target).execute(stream, source, target);
    return target;
  };
  Buffer input_buffer, kernel_buffer, result_buffer;
  const memory source = reordered(input, entry->input, entry->own_input, input_buffer);
  const memory weights = reordered(kernel, entry->kernel, entry->own_kernel, kernel_buffer);
  memory target(entry->result, engine, conv.result.raw());
  memory own_target = target;
  if (entry->result != entry->own_result) {
    result_buffer = allocate(entry->own_result.get_size());
    own_target = memory(entry->own_result, engine, result_buffer.get());
  }
  const Buffer scratch = allocate(entry->scratch.get_size());
  entry->primitive.execute(stream,
                           {{DNNL_ARG_SRC, source},
                            {DNNL_ARG_WEIGHTS, weights},
                            {DNNL_ARG_DST, own_target},
                            {DNNL_ARG_SCRATCHPAD, memory(entry->scratch, engine, scratch.get())}});
  if (result_buffer) dnnl::reorder(own_target, target).execute(stream, own_target, target);
  stream.wait();
  return true;
}

}  // namespace cleave::conv_detail
