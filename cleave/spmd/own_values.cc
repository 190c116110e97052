#include "cleave/spmd/own_values.h"

#include <algorithm>
#include <cstring>

#include "cleave/core/error.h"
#include "cleave/graph/local_op.h"
#include "cleave/kernels/array.h"
#include "cleave/ops/literal_array.h"

namespace cleave {
namespace {

bool all_equal(const ByDevice& values) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
}

bool all_equal(const std::vector<ByDevice>& values) {
  return std::all_of(values.begin(), values.end(), [](const ByDevice& v) { return all_equal(v); });
}

Shape first_of(const std::vector<ByDevice>& values) {
  Shape shape;
  for (const ByDevice& value : values) shape.push_back(value[0]);
  return shape;
}

Literal table_literal(const ByDevice& values, DType dtype) {
  Literal table;
  table.type = Type::tensor(dtype, {static_cast<int64_t>(values.size())});
  std::vector<std::byte> bytes;
  for (int64_t value : values) {
    const Literal one = splat_literal(Type::tensor(dtype, {}), static_cast<double>(value));
    bytes.insert(bytes.end(), one.bytes->begin(), one.bytes->end());
  }
  table.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return table;
}

}  // namespace

Literal zero_literal(Type type) {
  Literal literal;
  literal.splat = true;
  literal.bytes = std::make_shared<const std::vector<std::byte>>(byte_size(type.dtype));
  literal.type = std::move(type);
  return literal;
}

ValueId OwnValues::constant(Literal literal) {
  const Type type = literal.type;
  AttrDict attrs;
  attrs.set("value", literal_attr(std::move(literal)));
  return builder().emit_as(type, "stablehlo.constant", {}, std::move(attrs));
}

ValueId OwnValues::zeros(const Type& type) { return constant(zero_literal(type)); }

ValueId OwnValues::place() {
  const auto it = places_.find(region_);
  if (it != places_.end()) return it->second;
  GraphBuilder b = builder();
  const ValueId id =
      b.emit_as(Type::tensor(DType::U32, {}), "stablehlo.partition_id", std::vector<ValueId>{});
  return places_[region_] = b.convert(id, DType::I32);
}

ValueId OwnValues::number(const ByDevice& values, DType dtype) {
  internal_check(static_cast<int64_t>(values.size()) == devices_, "a number for each device");
  const auto [it, fresh] = numbers_.try_emplace({region_, dtype, values});
  if (!fresh) return it->second;
  GraphBuilder b = builder();
  if (all_equal(values))
    return it->second =
               constant(splat_literal(Type::tensor(dtype, {}), static_cast<double>(values[0])));
  const ValueId table = constant(table_literal(values, dtype));
  AttrDict attrs;
  attrs.set("slice_sizes", ints_attr({1}));
  const ValueId row = b.emit("stablehlo.dynamic_slice", {table, place()}, std::move(attrs));
  return it->second = b.reshape(row, {});
}

ValueId OwnValues::flag(const std::vector<bool>& values) {
  return number(ByDevice(values.begin(), values.end()), DType::Bool);
}

ValueId OwnValues::row(Literal table, const Type& type, ValueId at) {
  GraphBuilder b = builder();
  std::vector<ValueId> operands = {constant(std::move(table)), at};
  for (size_t d = 0; d < type.rank(); ++d)
    operands.push_back(number(ByDevice(static_cast<size_t>(devices_), 0)));
  Shape sizes = type.shape;
  sizes.insert(sizes.begin(), 1);
  AttrDict attrs;
  attrs.set("slice_sizes", ints_attr(sizes));
  return b.reshape(b.emit("stablehlo.dynamic_slice", std::move(operands), std::move(attrs)),
                   type.shape);
}

ValueId OwnValues::literal(const std::vector<Literal>& literals) {
  const Type type = literals[0].type;
  auto table_of = [&](const std::vector<Literal>& rows, Type row) {
    Literal table;
    std::vector<std::byte> bytes;
    for (const Literal& literal : rows) {
      const bool spread = literal.splat && row.rank() != 0;
      const Array whole = spread ? array_of(literal).contiguous() : Array();
      const std::byte* data = spread ? whole.raw() : literal.data();
      const size_t size = spread ? static_cast<size_t>(whole.num_bytes()) : literal.bytes->size();
      bytes.insert(bytes.end(), data, data + size);
    }
    row.shape.insert(row.shape.begin(), static_cast<int64_t>(rows.size()));
    table.type = std::move(row);
    table.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    return table;
  };
  const auto is_splat = [](const Literal& literal) { return literal.splat; };
  if (std::all_of(literals.begin(), literals.end(), is_splat)) {
    Type scalar = type;
    scalar.shape.clear();
    return builder().broadcast(row(table_of(literals, scalar), scalar, place()), type.shape, {});
  }
  std::vector<Literal> distinct;
  ByDevice index;
  for (const Literal& literal : literals) {
    const auto at = std::find(distinct.begin(), distinct.end(), literal);
    index.push_back(at - distinct.begin());
    if (at == distinct.end()) distinct.push_back(literal);
  }
  return row(table_of(distinct, type), type, number(index));
}

std::vector<ValueId> OwnValues::numbers(const std::vector<ByDevice>& values) {
  std::vector<ValueId> result;
  for (const ByDevice& value : values) result.push_back(number(value));
  return result;
}

ValueId OwnValues::fit(ValueId value, const Shape& size, const Literal* fill) {
  GraphBuilder b = builder();
  const Type type = b.type(value);
  if (type.shape == size) return value;
  Shape low(size.size()), limit(size.size()), high(size.size());
  bool grows = false;
  for (size_t d = 0; d < size.size(); ++d) {
    limit[d] = std::min(size[d], type.shape[d]);
    high[d] = size[d] - limit[d];
    grows |= high[d] > 0;
  }
  if (limit != type.shape) value = b.slice(value, low, limit);
  if (!grows) return value;
  Literal scalar = fill ? *fill : zero_literal(type);
  scalar.type.shape.clear();
  AttrDict attrs;
  attrs.set("edge_padding_low", ints_attr(low));
  attrs.set("edge_padding_high", ints_attr(high));
  attrs.set("interior_padding", ints_attr(low));
  return b.emit("stablehlo.pad", {value, constant(std::move(scalar))}, std::move(attrs));
}

ValueId OwnValues::window(ValueId value, const std::vector<ByDevice>& starts, const Shape& size) {
  Shape room = graph_.type(value).shape;
  for (size_t d = 0; d < size.size(); ++d)
    room[d] = std::max(room[d], *std::max_element(starts[d].begin(), starts[d].end()) + size[d]);
  value = fit(value, room);
  GraphBuilder b = builder();
  if (all_equal(starts)) {
    const Shape start = first_of(starts);
    Shape limit = start;
    for (size_t d = 0; d < size.size(); ++d) limit[d] += size[d];
    return room == size ? value : b.slice(value, start, limit);
  }
  std::vector<ValueId> operands = numbers(starts);
  operands.insert(operands.begin(), value);
  AttrDict attrs;
  attrs.set("slice_sizes", ints_attr(size));
  return b.emit("stablehlo.dynamic_slice", std::move(operands), std::move(attrs));
}

ValueId OwnValues::put(ValueId into, ValueId part, const std::vector<ByDevice>& starts) {
  if (starts.empty()) return part;
  std::vector<ValueId> operands = numbers(starts);
  operands.insert(operands.begin(), {into, part});
  return builder().emit("stablehlo.dynamic_update_slice", std::move(operands));
}

ValueId OwnValues::within(ValueId value, const std::vector<ByDevice>& sizes, ValueId other) {
  GraphBuilder b = builder();
  const Shape shape = b.shape(value);
  ValueId mask;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (std::all_of(sizes[d].begin(), sizes[d].end(), [&](int64_t n) { return n >= shape[d]; }))
      continue;
    const ValueId count = b.iota(DType::I32, {shape[d]}, 0);
    const ValueId limit = b.broadcast(number(sizes[d]), {shape[d]}, {});
    const ValueId along =
        b.broadcast(b.compare("LT", count, limit), shape, {static_cast<int64_t>(d)});
    mask = mask.valid() ? b.binary("stablehlo.and", mask, along) : along;
  }
  if (!mask.valid()) return value;
  return b.emit("stablehlo.select", {mask, value, other});
}

ValueId OwnValues::within(ValueId value, const std::vector<ByDevice>& sizes, const Literal& other) {
  Literal rest = other;
  rest.type.shape = graph_.type(value).shape;
  return within(value, sizes, constant(std::move(rest)));
}

}  // namespace cleave
