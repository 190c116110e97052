#include <algorithm>
#include <cstring>

#include "cleave/core/error.h"
#include "cleave/kernels/array.h"
#include "cleave/ops/literal_array.h"
#include "cleave/ops/shape/family.h"

namespace cleave {
namespace {

int64_t ceil_of(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -((-a) / b); }
int64_t floor_of(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

std::vector<ValueId> local_constant(LocalOp& op) {
  const Literal& literal = op.attrs().get_literal("value");
  const ShardSlice& box = op.result_boxes[0];
  if (box.size == literal.type.shape) return op.emit_self(op.attrs());
  Literal part = literal;
  part.type.shape = box.size;
  if (!literal.splat) {
    const Array array = array_of(literal).slice(box.offset, box.size).contiguous();
    part.bytes = std::make_shared<const std::vector<std::byte>>(array.raw(),
                                                                array.raw() + array.num_bytes());
  }
  return {op.constant(std::move(part))};
}

// The new dimensions have the sizes of the device's box.
std::vector<ValueId> local_broadcast(LocalOp& op) {
  AttrDict attrs = op.attrs();
  Shape sizes = op.result_type().shape;
  sizes.resize(attrs.get_ints("broadcast_sizes").size());
  attrs.set("broadcast_sizes", ints_attr(sizes));
  return op.emit_self(std::move(attrs));
}

// Counts in 64 bits, so that no rounding depends on where a shard begins.
std::vector<ValueId> local_iota(LocalOp& op) {
  const ShardSlice& box = op.result_boxes[0];
  const int64_t offset = box.offset[op.attrs().get_int("iota_dimension")];
  const bool is_cut = box.size != op.result_shape();
  if (offset == 0 && !(op.alike && is_cut)) return op.emit_self(op.attrs());
  Type type = op.result_type();
  const Type result = type;
  type.dtype = DType::I64;
  const ValueId counted = op.emit("stablehlo.iota", {}, type, op.attrs());
  const ValueId shift = op.splat(type, static_cast<double>(offset));
  const ValueId shifted = op.emit("stablehlo.add", {counted, shift}, type);
  return {result == type ? shifted : op.emit("stablehlo.convert", {shifted}, result)};
}

void slice_needs(const Graph&, const Node& node, std::span<const ShardSlice> results,
                 std::span<ShardSlice> operands) {
  const std::vector<int64_t> starts = node.attrs.get_ints("start_indices");
  const std::vector<int64_t> strides = node.attrs.get_ints("strides");
  for (size_t d = 0; d < starts.size(); ++d) {
    const int64_t count = results[0].size[d];
    operands[0].offset[d] = starts[d] + results[0].offset[d] * strides[d];
    operands[0].size[d] = count == 0 ? 0 : (count - 1) * strides[d] + 1;
  }
}

std::vector<ValueId> local_slice(LocalOp& op) {
  std::vector<ShardSlice> needed = op.operand_boxes;
  slice_needs(op.whole(), op.node(), op.result_boxes, needed);
  Shape start(needed[0].offset.size()), limit(start.size());
  for (size_t d = 0; d < start.size(); ++d) {
    start[d] = needed[0].offset[d] - op.operand_boxes[0].offset[d];
    limit[d] = start[d] + needed[0].size[d];
  }
  AttrDict attrs = op.attrs();
  attrs.set("start_indices", ints_attr(start));
  attrs.set("limit_indices", ints_attr(limit));
  return op.emit_self(std::move(attrs));
}

void pad_needs(const Graph& graph, const Node& node, std::span<const ShardSlice> results,
               std::span<ShardSlice> operands) {
  const std::vector<int64_t> low = node.attrs.get_ints("edge_padding_low");
  const std::vector<int64_t> interior = node.attrs.get_ints("interior_padding");
  for (size_t d = 0; d < low.size(); ++d) {
    const int64_t step = interior[d] + 1;
    const int64_t first = results[0].offset[d] - low[d];
    const int64_t begin = std::max<int64_t>(0, ceil_of(first, step));
    const int64_t end = std::min(graph.operand_type(node, 0).shape[d],
                                 floor_of(first + results[0].size[d] - 1, step) + 1);
    operands[0].offset[d] = begin < end ? begin : 0;
    operands[0].size[d] = std::max<int64_t>(0, end - begin);
  }
}

std::vector<ValueId> local_pad(LocalOp& op) {
  std::vector<ShardSlice> needed = op.operand_boxes;
  pad_needs(op.whole(), op.node(), op.result_boxes, needed);
  const ShardSlice& box = op.result_boxes[0];
  if (num_elements(needed[0].size) == 0) return {op.broadcast_scalar(op.operands[1], box.size)};
  std::vector<int64_t> low = op.attrs().get_ints("edge_padding_low"), high = low;
  const std::vector<int64_t> interior = op.attrs().get_ints("interior_padding");
  for (size_t d = 0; d < low.size(); ++d) {
    const int64_t step = interior[d] + 1;
    low[d] += needed[0].offset[d] * step - box.offset[d];
    high[d] = box.size[d] - low[d] - ((needed[0].size[d] - 1) * step + 1);
  }
  AttrDict attrs = op.attrs();
  attrs.set("edge_padding_low", ints_attr(low));
  attrs.set("edge_padding_high", ints_attr(high));
  return op.emit_self({op.operand_part(0, needed[0]), op.operands[1]}, std::move(attrs));
}

void concatenate_needs(const Graph& graph, const Node& node, std::span<const ShardSlice> results,
                       std::span<ShardSlice> operands) {
  const int64_t dim = node.attrs.get_int("dimension");
  int64_t offset = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const int64_t size = graph.operand_type(node, i).shape[dim];
    const int64_t begin = std::max(results[0].offset[dim], offset);
    const int64_t end = std::min(results[0].offset[dim] + results[0].size[dim], offset + size);
    operands[i].offset[dim] = begin < end ? begin - offset : 0;
    operands[i].size[dim] = std::max<int64_t>(0, end - begin);
    offset += size;
  }
}

std::vector<ValueId> local_concatenate(LocalOp& op) {
  std::vector<ShardSlice> needed = op.operand_boxes;
  concatenate_needs(op.whole(), op.node(), op.result_boxes, needed);
  std::vector<ValueId> parts;
  for (size_t i = 0; i < needed.size(); ++i)
    if (num_elements(needed[i].size) != 0) parts.push_back(op.operand_part(i, needed[i]));
  if (parts.size() == 1) return parts;
  if (parts.empty()) return {op.splat(op.result_type(), 0)};
  return op.emit_self(std::move(parts), op.attrs());
}

void reverse_needs(const Graph& graph, const Node& node, std::span<const ShardSlice> results,
                   std::span<ShardSlice> operands) {
  for (int64_t d : node.attrs.get_ints("dimensions")) {
    const int64_t size = graph.operand_type(node, 0).shape[d];
    operands[0].offset[d] = size - results[0].offset[d] - results[0].size[d];
    operands[0].size[d] = results[0].size[d];
  }
}

std::vector<ValueId> local_reverse(LocalOp& op) {
  std::vector<ShardSlice> needed = op.operand_boxes;
  reverse_needs(op.whole(), op.node(), op.result_boxes, needed);
  return op.emit_self({op.operand_part(0, needed[0])}, op.attrs());
}

std::vector<ValueId> local_get_dimension_size(LocalOp& op) {
  const int64_t size = op.operand_shape(0)[op.attrs().get_int("dimension")];
  if (size == kDynamicSize) return op.emit_self(op.attrs());
  return {op.splat(op.result_type(), static_cast<double>(size))};
}

// Sizes and places of elements come from operands: one device can't tell its part, so all compute
// the whole.
bool never_sharded(const Graph&, const Node&, const OpShardingRule&, FactorIndex) { return false; }

// Sizes that have no common divisor give each side factors of its own: a part of the result along
// such a factor takes elements from all over the operand.
//   6x4 -> 4x6: ([i, j])->([k, l]) for the sizes 3 and 3 that stand in the way
bool reshape_shardable(const Graph&, const Node&, const OpShardingRule& rule, FactorIndex factor) {
  auto has = [&](const TensorFactors& tensor) {
    return std::any_of(tensor.begin(), tensor.end(), [&](const DimFactors& dim) {
      return std::find(dim.begin(), dim.end(), factor) != dim.end();
    });
  };
  return has(rule.operands[0]) && has(rule.results[0]);
}

}  // namespace

void add_local_view_forms(OpRegistry& registry) {
  for (const char* name :
       {"stablehlo.dynamic_iota", "stablehlo.dynamic_reshape", "stablehlo.dynamic_broadcast_in_dim",
        "stablehlo.dynamic_pad", "stablehlo.real_dynamic_slice", "stablehlo.set_dimension_size",
        "stablehlo.dynamic_gather"})
    registry.extend(name, [](OpDef& def) { def.shardable = never_sharded; });
  registry.extend("stablehlo.reshape", [](OpDef& def) { def.shardable = reshape_shardable; });
  registry.extend("stablehlo.constant", [](OpDef& def) { def.localize = local_constant; });
  registry.extend("stablehlo.iota", [](OpDef& def) { def.localize = local_iota; });
  registry.extend("stablehlo.broadcast", [](OpDef& def) { def.localize = local_broadcast; });
  registry.extend("stablehlo.get_dimension_size",
                  [](OpDef& def) { def.localize = local_get_dimension_size; });
  auto add = [&](const char* name, LocalizeFn localize, NeedsFn needs) {
    registry.extend(name, [&](OpDef& def) {
      def.localize = localize;
      def.needs = needs;
    });
  };
  add("stablehlo.slice", local_slice, slice_needs);
  add("stablehlo.pad", local_pad, pad_needs);
  add("stablehlo.concatenate", local_concatenate, concatenate_needs);
  add("stablehlo.reverse", local_reverse, reverse_needs);
}

}  // namespace cleave
