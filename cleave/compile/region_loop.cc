#include "cleave/compile/region_loop.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "cleave/core/aligned.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/literal_array.h"
#include "cleave/ops/op.h"

namespace cleave {

size_t RegionLoop::add_slot(DType dtype) {
  Slot slot;
  slot.size = byte_size(dtype);
  slot.offset = scratch_;
  scratch_ += aligned(static_cast<size_t>(kChunk * std::max<int64_t>(slot.size, 4)));
  slots_.push_back(std::move(slot));
  return slots_.size() - 1;
}

void RegionLoop::convert(size_t& slot, DType from, DType to) {
  if (from == to) return;
  const size_t out = add_slot(to);
  instructions_.push_back({convert_loop(from, to), {slot}, 1, out});
  slot = out;
}

std::optional<RegionLoop> RegionLoop::make(const Graph& graph, RegionId region) {
  RegionLoop result;
  std::map<uint32_t, size_t> slot_of;
  const Region& body = graph.region(region);
  auto is_scalar = [&](ValueId value) {
    const Type& type = graph.type(value);
    return type.is_tensor() && type.rank() == 0 && has_kernels(type.dtype);
  };
  for (size_t i = 0; i < body.args.size(); ++i) {
    if (!is_scalar(body.args[i])) return std::nullopt;
    Slot slot;
    slot.argument = static_cast<int>(i);
    slot.size = byte_size(graph.type(body.args[i]).dtype);
    result.slots_.push_back(std::move(slot));
    slot_of[body.args[i].index] = i;
  }
  for (NodeId id : body.nodes) {
    const Node& node = graph.node(id);
    for (ValueId operand : node.operands)
      if (!slot_of.count(operand.index)) return std::nullopt;
    if (node.def->has(kTerminator)) {
      for (ValueId operand : node.operands) result.results_.push_back(slot_of[operand.index]);
      return result;
    }
    if (node.results.size() != 1 || !is_scalar(node.results[0])) return std::nullopt;
    const DType dtype = graph.type(node.results[0]).dtype;
    if (is<op::Constant>(node)) {
      const Array value = array_of(node.attrs.get_literal("value"));
      Slot slot;
      slot.size = byte_size(dtype);
      slot.constant.resize(static_cast<size_t>(kChunk * slot.size));
      for (int64_t i = 0; i < kChunk; ++i)
        std::memcpy(slot.constant.data() + i * slot.size, value.raw(),
                    static_cast<size_t>(slot.size));
      slot_of[node.results[0].index] = result.slots_.size();
      result.slots_.push_back(std::move(slot));
      continue;
    }
    const ElementLoop loop =
        node.def->has(kElementwise) && node.def->loop && node.operands.size() <= kMaxLoopOperands
            ? node.def->loop(graph, node)
            : ElementLoop();
    if (!loop.loop) return std::nullopt;
    Instruction instruction{loop.loop, {}, node.operands.size(), 0};
    for (size_t i = 0; i < node.operands.size(); ++i) {
      instruction.in[i] = slot_of[node.operands[i].index];
      result.convert(instruction.in[i], graph.operand_type(node, i).dtype, loop.in[i]);
    }
    size_t out = result.add_slot(loop.out);
    instruction.out = out;
    result.instructions_.push_back(instruction);
    result.convert(out, loop.out, dtype);
    slot_of[node.results[0].index] = out;
  }
  return std::nullopt;
}

bool RegionLoop::folds_in_place(size_t n) const {
  for (size_t i = 0; i < results_.size(); ++i)
    if (const int argument = slots_[results_[i]].argument;
        argument >= 0 && static_cast<size_t>(argument) % n != i)
      return false;
  return true;
}

void RegionLoop::run(const std::byte* const* args, std::byte* const* results, int64_t n,
                     std::byte* scratch) const {
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    auto at = [&](size_t i) -> const std::byte* {
      const Slot& slot = slots_[i];
      if (slot.argument >= 0) return args[slot.argument] + begin * slot.size;
      return slot.constant.empty() ? scratch + slot.offset : slot.constant.data();
    };
    for (const Instruction& each : instructions_) {
      const std::byte* in[kMaxLoopOperands];
      for (size_t i = 0; i < each.num_in; ++i) in[i] = at(each.in[i]);
      each.loop(in, scratch + slots_[each.out].offset, count);
    }
    // What only passes an argument on is read before another result takes its place.
    constexpr size_t kMostResults = 16;
    for (size_t i = 0; i < std::min(results_.size(), kMostResults); ++i) {
      const Slot& slot = slots_[results_[i]];
      std::byte* const to = results[i] + begin * slot.size;
      if (at(results_[i]) != to)
        std::memmove(to, at(results_[i]), static_cast<size_t>(count * slot.size));
    }
  }
}

}  // namespace cleave
