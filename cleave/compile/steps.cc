#include "cleave/compile/steps.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "cleave/compile/rank_steps.h"
#include "cleave/core/error.h"
#include "cleave/core/seconds_now.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

// Starts are moved so that the part lies inside; gives its offset in elements.
int64_t clamped_offset(const Frame& frame, const std::vector<CodeView>& starts, const Shape& whole,
                       const Shape& part, const Shape& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < starts.size(); ++d) {
    const std::byte* data = frame.data(starts[d]);
    int64_t start = 0;
    switch (starts[d].type.dtype) {
      case DType::I8:
        start = *reinterpret_cast<const int8_t*>(data);
        break;
      case DType::I16:
        start = *reinterpret_cast<const int16_t*>(data);
        break;
      case DType::I32:
        start = *reinterpret_cast<const int32_t*>(data);
        break;
      case DType::U8:
        start = *reinterpret_cast<const uint8_t*>(data);
        break;
      case DType::U16:
        start = *reinterpret_cast<const uint16_t*>(data);
        break;
      case DType::U32:
        start = *reinterpret_cast<const uint32_t*>(data);
        break;
      case DType::U64:
        start = static_cast<int64_t>(
            std::min<uint64_t>(*reinterpret_cast<const uint64_t*>(data), INT64_MAX));
        break;
      default:
        start = *reinterpret_cast<const int64_t*>(data);
    }
    offset += std::clamp<int64_t>(start, 0, whole[d] - part[d]) * strides[d];
  }
  return offset;
}

void tell(Frame& frame, const CodeStep& step, double begin) {
  std::vector<Array> results;
  const Node& node = frame.code->graph.node(step.node);
  for (const CodeView& view : step.results) results.push_back(frame.array(view));
  frame.observer->executed(frame.code->graph, node, frame.device, results, begin, seconds_now());
}

}  // namespace

bool CodeView::is_contiguous() const {
  int64_t expected = 1;
  for (size_t d = type.shape.size(); d-- > 0;) {
    if (type.shape[d] == 0) return true;
    if (type.shape[d] != 1 && type.strides[d] != expected) return false;
    expected *= type.shape[d];
  }
  return true;
}

int64_t CodeView::num_bytes() const { return num_elements(type.shape) * byte_size(type.dtype); }

Array Frame::array(const CodeView& view) const {
  return Array(view.type.dtype, view.type.shape, view.type.strides, view.offset,
               Buffer(std::shared_ptr<void>(), base[view.buffer]));
}

bool advance(Frame& frame) {
  while (!frame.stack.empty()) {
    Frame::Position& at = frame.stack.back();
    if (at.step == at.block->steps.size()) {
      frame.stack.pop_back();
      continue;
    }
    const CodeStep& step = *at.block->steps[at.step];
    const double begin = frame.observer ? seconds_now() : 0;
    const CodeStep::Next next = step.run(frame);
    // Where the device waits, somebody else may run it from here on.
    if (next == CodeStep::Next::Wait) return false;
    if (next == CodeStep::Next::Block) continue;
    if (frame.observer && step.node.valid() && !step.results.empty()) tell(frame, step, begin);
    for (uint32_t buffer : step.releases) frame.release(buffer);
    if (!frame.under_way.empty()) advance_transfers(frame);
    ++frame.stack.back().step;
  }
  return true;
}

CodeStep::Next FusedStep::run(Frame& frame) const {
  constexpr size_t kMost = 512;
  std::array<std::byte*, kMost> in, out;
  for (size_t i = 0; i < operands_.size(); ++i) in[i] = frame.data(operands_[i]);
  for (size_t i = 0; i < written_.size(); ++i) out[i] = frame.data(written_[i]);
  loop_.run({in.data(), operands_.size()}, {out.data(), written_.size()}, frame.scratch,
            frame.team);
  return Next::Continue;
}

CopyStep::CopyStep(CodeView from, CodeView to)
    : from_(std::move(from)),
      to_(std::move(to)),
      copy_(from_.type.shape, from_.type.strides, to_.type.strides, byte_size(from_.type.dtype)) {}

CodeStep::Next CopyStep::run(Frame& frame) const {
  if (frame.data(from_) != frame.data(to_)) copy_.run(frame.data(from_), frame.data(to_));
  return Next::Continue;
}

UpdateSliceStep::UpdateSliceStep(CodeView operand, CodeView update, std::vector<CodeView> starts,
                                 CodeView to)
    : operand_(std::move(operand)),
      update_(std::move(update)),
      to_(std::move(to)),
      starts_(std::move(starts)),
      whole_(operand_.type.shape, operand_.type.strides, to_.type.strides,
             byte_size(to_.type.dtype)),
      part_(update_.type.shape, update_.type.strides, to_.type.strides, byte_size(to_.type.dtype)) {
}

CodeStep::Next UpdateSliceStep::run(Frame& frame) const {
  std::byte* to = frame.data(to_);
  if (frame.data(operand_) != to) whole_.run(frame.data(operand_), to);
  const int64_t offset =
      clamped_offset(frame, starts_, to_.type.shape, update_.type.shape, to_.type.strides);
  part_.run(frame.data(update_), to + offset * byte_size(to_.type.dtype));
  return Next::Continue;
}

DynamicSliceStep::DynamicSliceStep(CodeView operand, std::vector<CodeView> starts, CodeView to)
    : operand_(std::move(operand)),
      to_(std::move(to)),
      starts_(std::move(starts)),
      copy_(to_.type.shape, operand_.type.strides, to_.type.strides, byte_size(to_.type.dtype)) {}

CodeStep::Next DynamicSliceStep::run(Frame& frame) const {
  const int64_t offset =
      clamped_offset(frame, starts_, operand_.type.shape, to_.type.shape, operand_.type.strides);
  copy_.run(frame.data(operand_) + offset * byte_size(to_.type.dtype), frame.data(to_));
  return Next::Continue;
}

CodeStep::Next KernelStep::run(Frame& frame) const {
  const Node& n = frame.code->graph.node(node);
  std::vector<Array> operands;
  operands.reserve(operands_.size());
  // What has effects may keep its operands, or lend them to other devices.
  for (const CodeView& view : operands_)
    operands.push_back(alone_ ? frame.array(view) : frame.array(view).copy());
  EvalContext& context = alone_ ? *frame.alone : frame.interpreter();
  std::vector<Array> results = n.def->eval(context, n, operands);
  if (results.size() != results_.size())
    throw_internal("{}: the kernel gave {} results of {}", n.name(), results.size(),
                   results_.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& type = frame.code->graph.type(n.results[i]);
    if (results[i].dtype() != type.dtype || results[i].shape() != type.shape)
      throw_internal("{}: the kernel gave tensor<{}x{}> where {} was declared", n.name(),
                     to_string(results[i].shape()), name(results[i].dtype()), to_string(type));
    // A view of an operand would change with it.
    const bool is_view = std::any_of(operands.begin(), operands.end(), [&](const Array& operand) {
      return operand.buffer().get() == results[i].buffer().get();
    });
    frame.hold(results_[i],
               is_view || !results[i].is_contiguous() ? results[i].copy() : results[i]);
  }
  return Next::Continue;
}

void run_kernel(Frame& frame, NodeId node, const std::vector<CodeView>& operands,
                const std::vector<CodeView>& results) {
  const Node& n = frame.code->graph.node(node);
  std::vector<Array> in;
  for (const CodeView& view : operands) in.push_back(frame.array(view));
  const std::vector<Array> out = n.def->eval(*frame.alone, n, in);
  for (size_t i = 0; i < results.size(); ++i) copy_elements(out[i], frame.array(results[i]));
}

// States: 0 before the loop, 1 the condition has run, 2 the body has run.
CodeStep::Next WhileStep::run(Frame& frame) const {
  int& at = frame.state[state];
  if (at == 1) {
    if (*reinterpret_cast<const uint8_t*>(frame.data(predicate)) == 0) {
      at = 0;
      return Next::Continue;
    }
    at = 2;
    frame.stack.push_back({&body, 0});
    return Next::Block;
  }
  if (at == 2)
    for (const auto& [a, b] : rotated) {
      std::byte* const x = frame.base[a];
      std::byte* const y = frame.base[b];
      for (uint32_t buffer : frame.code->same[a]) frame.base[buffer] = y;
      for (uint32_t buffer : frame.code->same[b]) frame.base[buffer] = x;
    }
  at = 1;
  frame.stack.push_back({&condition, 0});
  return Next::Block;
}

CodeStep::Next CaseStep::run(Frame& frame) const {
  int& at = frame.state[state];
  if (at == 1) {
    at = 0;
    return Next::Continue;
  }
  const auto count = static_cast<int32_t>(branches.size());
  int32_t branch = 0;
  if (index.type.dtype == DType::Bool) {
    branch = *reinterpret_cast<const uint8_t*>(frame.data(index)) ? 0 : 1;
  } else {
    branch = *reinterpret_cast<const int32_t*>(frame.data(index));
    if (branch < 0 || branch >= count) branch = count - 1;
  }
  at = 1;
  frame.stack.push_back({&branches[static_cast<size_t>(branch)], 0});
  return Next::Block;
}

}  // namespace cleave
