#include "cleave/compile/onednn_call.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"

namespace cleave {

using dnnl::memory;

void OneDnnCall::add(int id, const memory::desc& desc, const CodeView* view, int64_t offset) {
  arguments_.push_back({view, offset, memory(desc, onednn_engine(), nullptr), nullptr});
  handles_.push_back({id, arguments_.back().data.get()});
}

void OneDnnCall::run(const Frame& frame, std::byte* scratch) {
  for (Argument& argument : arguments_) {
    std::byte* at = (argument.view ? frame.data(*argument.view) : scratch) + argument.offset;
    // Told only where it has changed, since telling costs as much as a small product.
    if (at == argument.at) continue;
    argument.data.set_data_handle(at);
    argument.at = at;
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), onednn_stream().get(), static_cast<int>(handles_.size()), handles_.data());
  internal_check(status == dnnl_success, "a call of oneDNN failed");
}

OneDnnCall reorder_call(const memory::desc& from, const memory::desc& to) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc desc(onednn_engine(), from, onednn_engine(), to, attr);
  internal_check(desc.scratchpad_desc().get_size() == 0, "a reorder that needs scratch memory");
  return OneDnnCall(dnnl::reorder(desc));
}

dnnl::algorithm onednn_algorithm(EpilogueStep::Kind kind) {
  switch (kind) {
    case EpilogueStep::Kind::Linear:
      return dnnl::algorithm::eltwise_linear;
    case EpilogueStep::Kind::Tanh:
      return dnnl::algorithm::eltwise_tanh;
    case EpilogueStep::Kind::Logistic:
      return dnnl::algorithm::eltwise_logistic;
    case EpilogueStep::Kind::GeluTanh:
      return dnnl::algorithm::eltwise_gelu_tanh;
    case EpilogueStep::Kind::GeluErf:
      return dnnl::algorithm::eltwise_gelu_erf;
    case EpilogueStep::Kind::Silu:
      return dnnl::algorithm::eltwise_swish;
    case EpilogueStep::Kind::Add:
      return dnnl::algorithm::binary_add;
    case EpilogueStep::Kind::Subtract:
      return dnnl::algorithm::binary_sub;
    default:
      return dnnl::algorithm::binary_mul;
  }
}

ClipTail::ClipTail(DType dtype) : dtype_(dtype) {
  if (dtype == DType::F32) return;
  widen_ = convert_loop(dtype, DType::F32);
  narrow_ = convert_loop(DType::F32, dtype);
}

void ClipTail::add(bool is_maximum, double value) {
  const BinaryOp op = is_maximum ? BinaryOp::Maximum : BinaryOp::Minimum;
  clips_.push_back({binary_loop(op, DType::F32).loop,
                    std::vector<float>(static_cast<size_t>(kChunk), static_cast<float>(value))});
}

void ClipTail::run(std::byte* at, int64_t count) const {
  alignas(64) std::byte wide[kChunk * sizeof(float)];
  const int64_t size = byte_size(dtype_);
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t n = std::min(kChunk, count - begin);
    std::byte* const elements = at + begin * size;
    std::byte* const values = widen_ ? wide : elements;
    const std::byte* from = elements;
    if (widen_) widen_(&from, values, n);
    for (const Clip& clip : clips_) {
      const std::byte* in[2] = {values, reinterpret_cast<const std::byte*>(clip.value.data())};
      clip.loop(in, values, n);
    }
    from = values;
    if (narrow_) narrow_(&from, elements, n);
  }
}

}  // namespace cleave
