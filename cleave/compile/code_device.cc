#include "cleave/compile/code_device.h"

#include <algorithm>
#include <utility>

#include "cleave/core/error.h"

namespace cleave {
namespace {

// For ops that need nothing but their operands, or only their own regions.
class StepContext : public EvalContext {
 public:
  StepContext(const Graph& graph, const std::function<Interpreter&()>& interpreter)
      : EvalContext(graph), interpreter_(interpreter) {}
  std::vector<Array> run_region(RegionId region, std::span<const Array> args) override {
    return interpreter_().run_region(region, args);
  }
  std::vector<Array> call(std::string_view function, std::span<const Array> args) override {
    return interpreter_().call(function, args);
  }
  std::vector<Array> map_region(RegionId region, std::span<const Array> args) override {
    return interpreter_().map_region(region, args);
  }

 private:
  const std::function<Interpreter&()>& interpreter_;
};

bool is_packed(const Array& array, const Type& type) {
  return array.valid() && array.dtype() == type.dtype && array.shape() == type.shape &&
         array.is_contiguous();
}

// Whether a tensor may be written into the array, which nobody else holds.
bool can_hold(const Array& array, const Type& type) {
  return is_packed(array, type) && array.buffer().use_count() == 1;
}

// The result becomes a view of the memory. One of the same type keeps its shape and strides, so
// that nothing is allocated.
void set_memory(Array& result, const Type& type, Buffer memory) {
  if (is_packed(result, type) && result.raw() == result.buffer().get())
    const_cast<Buffer&>(result.buffer()) = std::move(memory);
  else
    result = Array(type.dtype, type.shape, row_major_strides(type.shape), 0, std::move(memory));
}

}  // namespace

void CodeDevice::prepare(int64_t index, Team* team, Meetings* meetings,
                         std::function<Interpreter::Options()> options) {
  arena = allocate(std::max<size_t>(code.stats.arena_bytes, 64));
  scratch_ = allocate(std::max<size_t>(code.scratch_bytes, 64));
  frame.code = &code;
  frame.device = index;
  frame.team = team;
  frame.scratch = scratch_.get();
  frame.base.resize(code.buffers.size());
  frame.held.resize(code.buffers.size());
  frame.state.resize(code.num_states);
  frame.stack.reserve(16);
  frame.meetings = meetings;
  interpreter_ = [this, options = std::move(options)]() -> Interpreter& {
    if (!made_) made_.emplace(code.graph, code.schedule, options());
    return *made_;
  };
  frame.interpreter = interpreter_;
  context_ = std::make_unique<StepContext>(code.graph, interpreter_);
  frame.alone = context_.get();
}

Array CodeDevice::memory_for(const Type& type) {
  for (Array& array : spare_)
    if (can_hold(array, type)) return std::exchange(array, Array());
  return Array(type.dtype, type.shape);
}

void CodeDevice::bind(const std::string& entry, std::vector<Array>& args,
                      std::vector<Array>& results) {
  if (args.size() != code.arguments.size())
    throw_user("@{} takes {} arguments, {} are given", entry, code.arguments.size(), args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Type& type = code.arguments[i];
    if (args[i].dtype() != type.dtype || args[i].shape() != type.shape)
      throw_user("argument {} of @{} is {}, and {} is given", i, entry, to_string(type),
                 to_string(Type::tensor(args[i].dtype(), args[i].shape())));
    if (!args[i].is_contiguous() || (code.donated[i] && args[i].buffer().use_count() > 1))
      args[i] = args[i].copy();
  }
  results.resize(code.results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const CodeResult& result = code.results[i];
    if (result.kind != CodeResult::Kind::Buffer) continue;
    if (result.donor >= 0) continue;
    if (!can_hold(results[i], result.type)) results[i] = memory_for(result.type);
  }
  std::byte* const memory = arena.get();
  for (uint32_t b = 0; b < code.buffers.size(); ++b) {
    const CodeBuffer& buffer = code.buffers[b];
    switch (buffer.kind) {
      case CodeBuffer::Kind::Arena:
        if (buffer.output < 0)
          frame.base[b] = memory + code.offsets[b];
        else if (code.results[static_cast<size_t>(buffer.output)].donor < 0)
          frame.base[b] = results[static_cast<size_t>(buffer.output)].raw();
        break;
      case CodeBuffer::Kind::Argument:
        frame.base[b] = args[buffer.argument].raw();
        break;
      case CodeBuffer::Kind::Constant:
        frame.base[b] = buffer.constant.raw();
        break;
      case CodeBuffer::Kind::Held:
        break;
    }
  }
  // Buffers that live in a donated argument.
  for (uint32_t b = 0; b < code.buffers.size(); ++b)
    if (code.buffers[b].kind == CodeBuffer::Kind::Argument &&
        code.donated[code.buffers[b].argument])
      for (uint32_t other : code.same[b]) frame.base[other] = frame.base[b];
  std::fill(frame.state.begin(), frame.state.end(), 0);
  frame.held_bytes = frame.held_peak = 0;
  frame.stack.clear();
  frame.stack.push_back({&code.main, 0});
  made_.reset();
  done.clear();
}

void CodeDevice::collect(std::vector<Array>& args, std::vector<Array>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const CodeResult& result = code.results[i];
    if (result.donor >= 0) {
      Array& from = args[static_cast<size_t>(result.donor)];
      if (from.shape() == result.type.shape && from.dtype() == result.type.dtype)
        results[i] = std::move(from);
      else
        set_memory(results[i], result.type, Buffer(from.buffer(), from.raw()));
    } else if (result.kind == CodeResult::Kind::Argument) {
      const Array& from = args[result.argument];  // perhaps in another shape
      set_memory(results[i], result.type, Buffer(from.buffer(), from.raw()));
    } else if (result.kind == CodeResult::Kind::Held) {
      set_memory(results[i], result.type,
                 Buffer(frame.held[result.buffer], frame.base[result.buffer]));
    }
  }
  spare_.clear();
  for (size_t i = 0; i < args.size(); ++i) {
    if (!code.donated[i]) continue;
    if (can_hold(args[i], code.arguments[i])) spare_.push_back(std::move(args[i]));
    args[i] = Array();
  }
  std::fill(frame.held.begin(), frame.held.end(), nullptr);
}

}  // namespace cleave
