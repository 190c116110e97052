#include <algorithm>

#include "cleave/ops/local_forms.h"

namespace cleave {
namespace {

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Dimensions that are cut have the full slice size, where any start index is clamped to 0.
std::vector<ValueId> local_dynamic_slice(LocalOp& op) {
  AttrDict attrs = op.attrs();
  attrs.set("slice_sizes", ints_attr(op.result_boxes[0].size));
  return op.emit_self(std::move(attrs));
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
  Type type = op.type(op.operands[0]);
  const Type scalar = Type::tensor(type.dtype, {});
  for (size_t d = 0; d < rank; ++d) type.shape[d] += 2 * margin[d];
  AttrDict pad;
  pad.set("edge_padding_low", ints_attr(margin));
  pad.set("edge_padding_high", ints_attr(margin));
  pad.set("interior_padding", ints_attr(std::vector<int64_t>(rank, 0)));
  std::vector<ValueId> operands = {
      op.emit("stablehlo.pad", {op.operands[0], op.splat(scalar, 0)}, type, std::move(pad)),
      op.operands[1]};
  const Type index = Type::tensor(DType::I64, {});
  auto number = [&](int64_t value) { return op.splat(index, static_cast<double>(value)); };
  for (size_t d = 0; d < rank; ++d) {
    ValueId start = op.operands[2 + d];
    if (op.type(start).dtype != DType::I64) start = op.emit("stablehlo.convert", {start}, index);
    start = op.emit("stablehlo.clamp", {number(0), start, number(whole[d] - update[d])}, index);
    if (margin[d] != 0)
      start = op.emit("stablehlo.subtract", {start, number(box.offset[d] - margin[d])}, index);
    operands.push_back(start);
  }
  const ValueId updated = op.emit("stablehlo.dynamic_update_slice", operands, type);
  return {op.slice(updated, margin, op.result_boxes[0].size)};
}

struct GatherDims {
  explicit GatherDims(const AttrDict& attrs) {
    const Attribute* attr = attrs.find("dimension_numbers");
    const StructAttr* numbers = attr ? attr->as<StructAttr>() : nullptr;
    if (!numbers) return;
    offset = numbers->get_ints_or_empty("offset_dims");
    batching = numbers->get_ints_or_empty("operand_batching_dims");
    start_map = numbers->get_ints_or_empty("start_index_map");
    index_vector = numbers->get_int("index_vector_dim", 0);
  }
  std::vector<int64_t> offset, batching, start_map;
  int64_t index_vector = 0;
};

// One component of the start indices, without the dimension of index vectors.
ValueId component(LocalOp& op, const GatherDims& dims, int64_t k) {
  Type type = op.type(op.operands[1]);
  if (dims.index_vector == static_cast<int64_t>(type.rank())) return op.operands[1];
  Shape start(type.rank()), size = type.shape;
  start[dims.index_vector] = k;
  size[dims.index_vector] = 1;
  const ValueId column = op.slice(op.operands[1], start, size);
  type.shape.erase(type.shape.begin() + dims.index_vector);
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
  const GatherDims dims(op.attrs());
  const ShardSlice& table = op.operand_boxes[0];
  std::vector<int64_t> sizes = op.attrs().get_ints("slice_sizes");
  const Shape& whole = op.operand_shape(0);
  std::vector<ValueId> columns;
  ValueId found;
  bool cut = false;
  for (size_t k = 0; k < dims.start_map.size(); ++k) {
    const int64_t d = dims.start_map[k];
    if (table.size[d] != whole[d] && sizes[d] == 1) cut = true;
  }
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d) {
    if (sizes[d] == whole[d]) {
      sizes[d] = table.size[d];
    } else if (table.offset[d] != 0 && !contains(dims.start_map, d) &&
               !contains(dims.batching, d)) {
      // Nothing indexes the dimension: its first element is meant, and it is elsewhere.
      return {op.identity(ReduceOp::Sum, op.result_type())};
    }
  }
  AttrDict attrs = op.attrs();
  attrs.set("slice_sizes", ints_attr(sizes));
  if (!cut) return op.emit_self(std::move(attrs));
  if (num_elements(table.size) == 0) return {op.identity(ReduceOp::Sum, op.result_type())};

  for (size_t k = 0; k < dims.start_map.size(); ++k) {
    const int64_t d = dims.start_map[k];
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
  if (dims.index_vector != static_cast<int64_t>(indices.rank())) {
    Type column = indices;
    column.shape[dims.index_vector] = 1;
    for (ValueId& value : columns) value = op.emit("stablehlo.reshape", {value}, column);
    AttrDict join;
    join.set("dimension", int_attr(dims.index_vector));
    start = columns.size() == 1
                ? columns[0]
                : op.emit("stablehlo.concatenate", columns, indices, std::move(join));
  }
  const ValueId gathered = op.emit_self({op.operands[0], start}, std::move(attrs))[0];
  std::vector<int64_t> batch;
  for (int64_t d = 0; d < static_cast<int64_t>(op.result_shape().size()); ++d)
    if (!contains(dims.offset, d)) batch.push_back(d);
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
  registry.extend("stablehlo.dynamic_slice",
                  [](OpDef& def) { def.localize = local_dynamic_slice; });
  registry.extend("stablehlo.dynamic_update_slice",
                  [](OpDef& def) { def.localize = local_dynamic_update_slice; });
  registry.extend("stablehlo.gather", [](OpDef& def) { def.localize = local_gather; });
  registry.extend("stablehlo.torch_index_select",
                  [](OpDef& def) { def.localize = local_index_select; });
}

}  // namespace cleave
