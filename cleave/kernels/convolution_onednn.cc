#include <algorithm>

#include "cleave/kernels/convolution.h"
#include "cleave/kernels/dense.h"
#include "cleave/kernels/library_threads.h"
#include "cleave/kernels/onednn.h"

namespace cleave::conv_detail {
namespace {

using dnnl::memory;

// A view in oneDNN's order of dimensions, or a packed copy where two dimensions can't become one.
struct Tensor {
  Array array;
  memory::dims shape, strides;
};

bool mergeable(const Array& a, size_t d) {
  return a.shape()[d] == 1 || a.shape()[d + 1] == 1 ||
         a.strides()[d] == a.strides()[d + 1] * a.shape()[d + 1];
}

// {n, g, c, spatial...} as {n, g * c, spatial...}
Tensor merged(const Array& array) {
  Tensor tensor;
  for (size_t d = 0; d < array.rank(); ++d) {
    if (d == 2) {
      tensor.shape.back() *= array.shape()[d];
      tensor.strides.back() = array.shape()[2] == 1 ? array.strides()[1] : array.strides()[2];
    } else {
      tensor.shape.push_back(array.shape()[d]);
      tensor.strides.push_back(array.strides()[d]);
    }
  }
  tensor.array = array;
  return tensor;
}

memory::desc describe(const memory::dims& shape, const memory::dims& strides,
                      memory::data_type type) {
  // Strides of dimensions of one element do not matter, but oneDNN wants them plausible.
  memory::dims plausible = strides;
  int64_t largest = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) largest = std::max(largest, strides[d] * shape[d]);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 1) plausible[d] = largest;
  return memory::desc(shape, type, plausible);
}

struct Entry {
  dnnl::convolution_forward primitive;
  memory::desc input, kernel, result;                       // of the views
  memory::desc own_input, own_kernel, own_result, scratch;  // as the primitive likes them
};

Entry make_entry(const Tensor& input, const Tensor& kernel, const Tensor& result,
                 const Window& window) {
  const auto type = onednn_type(input.array.dtype()),
             result_type = onednn_type(result.array.dtype());
  memory::dims strides, dilations, low, high;
  for (const Window::Dim& dim : window.dims) {
    strides.push_back(dim.stride);
    dilations.push_back(dim.dilation - 1);
    low.push_back(dim.low);
    high.push_back(dim.high);
  }
  Entry entry;
  entry.input = describe(input.shape, input.strides, type);
  entry.kernel = describe(kernel.shape, kernel.strides, type);
  entry.result = describe(result.shape, result.strides, result_type);
  const auto any = memory::format_tag::any;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::convolution_forward::primitive_desc desc(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_auto,
       memory::desc(input.shape, type, any), memory::desc(kernel.shape, type, any),
       memory::desc(result.shape, result_type, any), strides, dilations, low, high},
      attr, onednn_engine());
  entry.primitive = dnnl::convolution_forward(desc);
  entry.own_input = desc.src_desc();
  entry.own_kernel = desc.weights_desc();
  entry.own_result = desc.dst_desc();
  entry.scratch = desc.scratchpad_desc();
  return entry;
}

}  // namespace

bool run_onednn(const Canonical& conv) {
  // Below this much work, setting the library up costs more than the convolution.
  constexpr int64_t kTinyWork = 4096;
  const int64_t outputs = conv.kernel.shape()[0] * conv.kernel.shape()[1];
  if (conv.result.num_elements() * (conv.kernel.num_elements() / outputs) <= kTinyWork)
    return false;
  const size_t spatial = conv.window.dims.size();
  const DType type = conv.input.dtype();
  if ((type != DType::F32 && type != DType::BF16) || spatial < 1 || spatial > 3) return false;

  // oneDNN pads with zeros but neither crops nor dilates the input: those are done before.
  Window before, window = conv.window;
  before.dims.resize(3 + spatial);
  bool prepare = false;
  for (size_t i = 0; i < spatial; ++i) {
    Window::Dim& dim = window.dims[i];
    if (dim.base_dilation == 1 && dim.low >= 0 && dim.high >= 0) continue;
    before.dims[3 + i].base_dilation = dim.base_dilation;
    before.dims[3 + i].low = dim.low;
    before.dims[3 + i].high = dim.high;
    dim.base_dilation = 1;
    dim.low = dim.high = 0;
    prepare = true;
  }
  Array input = conv.input, kernel = conv.kernel;
  if (prepare) input = pad_and_dilate(input, before, Array::zeros(type, {}));
  if (!mergeable(input, 1)) input = input.copy();
  if (!mergeable(conv.result, 1)) return false;
  const bool grouped = kernel.shape()[0] > 1;

  Tensor in = merged(input), out = merged(conv.result);
  if (!is_dense(in.shape, in.strides)) in = merged(input.copy());
  if (!is_dense(out.shape, out.strides)) return false;
  Tensor ker{kernel, memory::dims(kernel.shape()), memory::dims(kernel.strides())};
  if (!is_dense(ker.shape, ker.strides)) {
    kernel = kernel.copy();
    ker = {kernel, memory::dims(kernel.shape()), memory::dims(kernel.strides())};
  }
  if (!grouped) {
    ker.shape.erase(ker.shape.begin());
    ker.strides.erase(ker.strides.begin());
  }

  apply_library_threads();
  thread_local PrimitiveCache<Entry> cache;
  std::vector<int64_t> key{static_cast<int64_t>(type), static_cast<int64_t>(conv.result.dtype()),
                           library_threads(), grouped};
  for (const Tensor* tensor : {&in, &ker, &out}) {
    key.insert(key.end(), tensor->shape.begin(), tensor->shape.end());
    key.insert(key.end(), tensor->strides.begin(), tensor->strides.end());
  }
  for (const Window::Dim& dim : window.dims)
    key.insert(key.end(), {dim.stride, dim.dilation, dim.low, dim.high});
  Entry* entry = nullptr;
  try {
    entry = &cache.get(key, [&] { return make_entry(in, ker, out, window); });
  } catch (const dnnl::error&) {
    return false;  // a form that this version does not have
  }

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
  const memory source = reordered(in.array, entry->input, entry->own_input, input_buffer);
  const memory weights = reordered(ker.array, entry->kernel, entry->own_kernel, kernel_buffer);
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
