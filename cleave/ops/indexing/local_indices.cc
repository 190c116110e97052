#include <algorithm>

#include "cleave/ops/indexing/family.h"
#include "cleave/ops/indexing/window_map.h"

namespace cleave {
namespace {

bool lists(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// The slice is as long as the dimension, or at most half of it: then a device takes the elements
// that it has, and parts of the slice are fewer bytes than the operand.
bool dynamic_slice_shardable(const Graph& graph, const Node& node, const OpShardingRule& rule,
                             FactorIndex factor) {
  const Shape& whole = graph.operand_type(node, 0).shape;
  const Shape& size = graph.result_type(node).shape;
  for (size_t d = 0; d < whole.size(); ++d)
    if (rule.operands[0][d] == DimFactors{factor})
      return size[d] == whole[d] || 2 * size[d] <= whole[d];
  return false;
}

// Start indices in 64 bits, moved as the whole op moves them so that the slice fits.
ValueId clamped_start(LocalOp& op, ValueId start, int64_t last) {
  const Type index = Type::tensor(DType::I64, {});
  if (op.type(start).dtype != DType::I64) start = op.emit("stablehlo.convert", {start}, index);
  auto number = [&](int64_t value) { return op.splat(index, static_cast<double>(value)); };
  return op.emit("stablehlo.clamp", {number(0), start, number(last)}, index);
}

// Puts `margin` elements that a sum leaves as they are (-0 for floats) on both sides.
ValueId with_margins(LocalOp& op, ValueId value, const std::vector<int64_t>& margin) {
  Type type = op.type(value);
  const Type scalar = Type::tensor(type.dtype, {});
  for (size_t d = 0; d < margin.size(); ++d) type.shape[d] += 2 * margin[d];
  AttrDict pad;
  pad.set("edge_padding_low", ints_attr(margin));
  pad.set("edge_padding_high", ints_attr(margin));
  pad.set("interior_padding", ints_attr(std::vector<int64_t>(margin.size(), 0)));
  return op.emit("stablehlo.pad", {value, op.splat(scalar, -0.0)}, type, std::move(pad));
}

// Where the operand is cut along a dimension that the slice does not fill, this device takes the
// elements that it has, at their places, and the parts are summed. Of 12 elements over 3 devices,
// the slice of 4 from 6 on is, before the sum:
//   device 0: 0 0 0 0     device 1: 6 7 0 0     device 2: 0 0 8 9
// A piece as long as the slice that lies nearest to it is taken first, and shifted between margins.
std::vector<ValueId> local_dynamic_slice(LocalOp& op) {
  const Shape& whole = op.operand_shape(0);
  const ShardSlice& box = op.operand_boxes[0];
  const Shape& size = op.result_boxes[0].size;
  const size_t rank = whole.size();
  std::vector<int64_t> margin(rank, 0);
  for (size_t d = 0; d < rank; ++d)
    if (box.size[d] != whole[d] && op.result_shape()[d] != whole[d]) margin[d] = size[d];
  AttrDict attrs = op.attrs();
  attrs.set("slice_sizes", ints_attr(size));
  if (std::all_of(margin.begin(), margin.end(), [](int64_t m) { return m == 0; }))
    return op.emit_self(std::move(attrs));
  if (num_elements(box.size) == 0) return {op.splat(op.result_type(), -0.0)};

  const Type index = Type::tensor(DType::I64, {});
  auto number = [&](int64_t value) { return op.splat(index, static_cast<double>(value)); };
  Type piece_type = op.result_type();
  std::vector<ValueId> first = {op.operands[0]}, second;
  for (size_t d = 0; d < rank; ++d) {
    ValueId start = op.operands[1 + d];
    start = clamped_start(op, start, whole[d] - op.result_shape()[d]);
    if (margin[d] == 0) {
      first.push_back(start);
      second.push_back(number(0));
      continue;
    }
    start = op.emit("stablehlo.subtract", {start, number(box.offset[d])}, index);
    piece_type.shape[d] = std::min(size[d], box.size[d]);
    const ValueId near = op.emit(
        "stablehlo.clamp", {number(0), start, number(box.size[d] - piece_type.shape[d])}, index);
    first.push_back(near);
    const ValueId shift = op.emit("stablehlo.subtract", {start, near}, index);
    second.push_back(op.emit("stablehlo.add", {shift, number(margin[d])}, index));
  }
  AttrDict piece_attrs = op.attrs();
  piece_attrs.set("slice_sizes", ints_attr(piece_type.shape));
  const ValueId piece =
      op.emit("stablehlo.dynamic_slice", std::move(first), piece_type, std::move(piece_attrs));
  second.insert(second.begin(), with_margins(op, piece, margin));
  return {op.emit("stablehlo.dynamic_slice", std::move(second), op.result_type(), attrs)};
}

// Where the operand is cut along a dimension that the update does not fill, the device's part is
// put between margins as wide as the update: what falls outside of the part lands there.
std::vector<ValueId> local_dynamic_update_slice(LocalOp& op) {
  const Shape& whole = op.operand_shape(0);
  const Shape& update = op.operand_shape(1);
  const ShardSlice& box = op.operand_boxes[0];
  const size_t rank = whole.size();
  std::vector<int64_t> margin(rank, 0);
  for (size_t d = 0; d < rank; ++d)
    if (box.size[d] != whole[d] && update[d] != whole[d]) margin[d] = update[d];
  if (std::all_of(margin.begin(), margin.end(), [](int64_t m) { return m == 0; }))
    return op.emit_self(op.attrs());
  std::vector<ValueId> operands = {with_margins(op, op.operands[0], margin), op.operands[1]};
  const Type type = op.type(operands[0]), index = Type::tensor(DType::I64, {});
  for (size_t d = 0; d < rank; ++d) {
    ValueId start = clamped_start(op, op.operands[2 + d], whole[d] - update[d]);
    if (margin[d] != 0) {
      const ValueId shift = op.splat(index, static_cast<double>(box.offset[d] - margin[d]));
      start = op.emit("stablehlo.subtract", {start, shift}, index);
    }
    operands.push_back(start);
  }
  const ValueId updated = op.emit("stablehlo.dynamic_update_slice", operands, type);
  return {op.slice(updated, margin, op.result_boxes[0].size)};
}

// One component of the start indices, without the dimension of index vectors.
ValueId component(LocalOp& op, const WindowMap& dims, int64_t k) {
  Type type = op.type(op.operands[1]);
  if (dims.index_vector_dim == static_cast<int64_t>(type.rank())) return op.operands[1];
  Shape start(type.rank()), size = type.shape;
  start[dims.index_vector_dim] = k;
  size[dims.index_vector_dim] = 1;
  const ValueId column = op.slice(op.operands[1], start, size);
  type.shape.erase(type.shape.begin() + dims.index_vector_dim);
  return op.emit("stablehlo.reshape", {column}, type);
}

ValueId compare(LocalOp& op, ValueId a, ValueId b, const char* direction) {
  AttrDict attrs;
  attrs.set("comparison_direction", EnumAttr{"stablehlo.comparison_direction", direction});
  Type type = op.type(a);
  type.dtype = DType::Bool;
  return op.emit("stablehlo.compare", {a, b}, type, std::move(attrs));
}

// As a gather: where the table is cut along the dimension that is indexed, each device looks up
// what it has and gives zeros for the rest.
std::vector<ValueId> local_index_select(LocalOp& op) {
  const int64_t dim = op.attrs().get_int("dim"), batch = op.attrs().get_int("batch_dims");
  const ShardSlice& table = op.operand_boxes[0];
  const int64_t whole = op.operand_shape(0)[dim];
  if (table.size[dim] == whole) return op.emit_self(op.attrs());
  if (num_elements(table.size) == 0) return {op.identity(ReduceOp::Sum, op.result_type())};
  const Type type = op.type(op.operands[1]);
  auto number = [&](int64_t value) { return op.splat(type, static_cast<double>(value)); };
  ValueId index = op.emit("stablehlo.clamp", {number(0), op.operands[1], number(whole - 1)}, type);
  const ValueId above = compare(op, index, number(table.offset[dim]), "GE");
  const ValueId below = compare(op, index, number(table.offset[dim] + table.size[dim] - 1), "LE");
  const ValueId here = op.emit("stablehlo.and", {above, below}, op.type(above));
  index = op.emit("stablehlo.subtract", {index, number(table.offset[dim])}, type);
  const ValueId selected = op.emit_self({op.operands[0], index}, op.attrs())[0];
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(type.rank()); ++d)
    dims.push_back(d < batch ? d : dim + d - batch);
  Type mask = op.result_type();
  mask.dtype = DType::Bool;
  AttrDict spread;
  spread.set("broadcast_dimensions", ints_attr(std::move(dims)));
  const ValueId found = op.emit("stablehlo.broadcast_in_dim", {here}, mask, std::move(spread));
  return {op.emit("stablehlo.select",
                  {found, selected, op.identity(ReduceOp::Sum, op.result_type())},
                  op.result_type())};
}

// The table is cut along dimensions that are indexed one element at a time. Each device looks up
// what it has and gives zeros for the rest; the sum over devices is the result.
std::vector<ValueId> local_gather(LocalOp& op) {
  const WindowMap dims = gather_map(op.node());
  const ShardSlice& table = op.operand_boxes[0];
  std::vector<int64_t> sizes = op.attrs().get_ints("slice_sizes");
  const Shape& whole = op.operand_shape(0);
  std::vector<ValueId> columns;
  ValueId found;
  bool cut = false;
  for (size_t k = 0; k < dims.index_map.size(); ++k) {
    const int64_t d = dims.index_map[k];
    if (table.size[d] != whole[d] && sizes[d] == 1) cut = true;
  }
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d) {
    if (sizes[d] == whole[d]) {
      sizes[d] = table.size[d];
    } else if (table.offset[d] != 0 && !lists(dims.index_map, d) &&
               !lists(dims.operand_batching_dims, d)) {
      // Nothing indexes the dimension: its first element is meant, and it is elsewhere.
      return {op.identity(ReduceOp::Sum, op.result_type())};
    }
  }
  AttrDict attrs = op.attrs();
  attrs.set("slice_sizes", ints_attr(sizes));
  if (!cut) return op.emit_self(std::move(attrs));
  if (num_elements(table.size) == 0) return {op.identity(ReduceOp::Sum, op.result_type())};

  for (size_t k = 0; k < dims.index_map.size(); ++k) {
    const int64_t d = dims.index_map[k];
    ValueId index = component(op, dims, static_cast<int64_t>(k));
    const Type type = op.type(index);
    if (table.size[d] != whole[d] && sizes[d] == 1) {
      auto number = [&](int64_t value) { return op.splat(type, static_cast<double>(value)); };
      index = op.emit("stablehlo.clamp", {number(0), index, number(whole[d] - 1)}, type);
      const ValueId above = compare(op, index, number(table.offset[d]), "GE");
      const ValueId below = compare(op, index, number(table.offset[d] + table.size[d] - 1), "LE");
      const ValueId here = op.emit("stablehlo.and", {above, below}, op.type(above));
      found = found.valid() ? op.emit("stablehlo.and", {found, here}, op.type(here)) : here;
      index = op.emit("stablehlo.subtract", {index, number(table.offset[d])}, type);
    }
    columns.push_back(index);
  }
  Type indices = op.type(op.operands[1]);
  ValueId start = columns[0];
  if (dims.index_vector_dim != static_cast<int64_t>(indices.rank())) {
    Type column = indices;
    column.shape[dims.index_vector_dim] = 1;
    for (ValueId& value : columns) value = op.emit("stablehlo.reshape", {value}, column);
    AttrDict join;
    join.set("dimension", int_attr(dims.index_vector_dim));
    start = columns.size() == 1
                ? columns[0]
                : op.emit("stablehlo.concatenate", columns, indices, std::move(join));
  }
  const ValueId gathered = op.emit_self({op.operands[0], start}, std::move(attrs))[0];
  std::vector<int64_t> batch;
  for (int64_t d = 0; d < static_cast<int64_t>(op.result_shape().size()); ++d)
    if (!lists(dims.window_dims, d)) batch.push_back(d);
  Type mask = op.result_type();
  mask.dtype = DType::Bool;
  AttrDict spread;
  spread.set("broadcast_dimensions", ints_attr(batch));
  const ValueId here = op.emit("stablehlo.broadcast_in_dim", {found}, mask, std::move(spread));
  return {op.emit("stablehlo.select",
                  {here, gathered, op.identity(ReduceOp::Sum, op.result_type())},
                  op.result_type())};
}

}  // namespace

void add_local_index_forms(OpRegistry& registry) {
  registry.extend("stablehlo.dynamic_slice", [](OpDef& def) {
    def.localize = local_dynamic_slice;
    def.shardable = dynamic_slice_shardable;
  });
  registry.extend("stablehlo.dynamic_update_slice",
                  [](OpDef& def) { def.localize = local_dynamic_update_slice; });
  registry.extend("stablehlo.gather", [](OpDef& def) { def.localize = local_gather; });
  registry.extend("stablehlo.torch_index_select",
                  [](OpDef& def) { def.localize = local_index_select; });
}

}  // namespace cleave
