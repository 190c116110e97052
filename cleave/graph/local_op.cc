#include "cleave/graph/local_op.h"

#include "cleave/graph/cloner.h"

#include <bit>
#include <cstring>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
void put(std::vector<std::byte>& bytes, T value, size_t offset = 0) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

template <typename T>
void put_integer(std::vector<std::byte>& bytes, double value) {
  // Identities of max and min are infinite: the ends of the range.
  if (value >= static_cast<double>(std::numeric_limits<T>::max()))
    put(bytes, std::numeric_limits<T>::max());
  else if (value <= static_cast<double>(std::numeric_limits<T>::lowest()))
    put(bytes, std::numeric_limits<T>::lowest());
  else
    put(bytes, static_cast<T>(value));
}

}  // namespace

Literal splat_literal(Type type, double value) {
  std::vector<std::byte> bytes(byte_size(type.dtype));
  switch (type.dtype) {
    case DType::Bool:
      put<uint8_t>(bytes, value > 0);
      break;
    case DType::I8:
      put_integer<int8_t>(bytes, value);
      break;
    case DType::I16:
      put_integer<int16_t>(bytes, value);
      break;
    case DType::I32:
      put_integer<int32_t>(bytes, value);
      break;
    case DType::I64:
      put_integer<int64_t>(bytes, value);
      break;
    case DType::U8:
      put_integer<uint8_t>(bytes, value);
      break;
    case DType::U16:
      put_integer<uint16_t>(bytes, value);
      break;
    case DType::U32:
      put_integer<uint32_t>(bytes, value);
      break;
    case DType::U64:
      put_integer<uint64_t>(bytes, value);
      break;
    case DType::F16:
      put<_Float16>(bytes, static_cast<_Float16>(value));
      break;
    case DType::BF16:
      put(bytes, to_bf16(static_cast<float>(value)));
      break;
    case DType::F32:
      put(bytes, static_cast<float>(value));
      break;
    case DType::F64:
      put(bytes, value);
      break;
    case DType::C64:
      put(bytes, static_cast<float>(value));
      put(bytes, static_cast<float>(value == 0 ? value : 0), sizeof(float));
      break;
    case DType::C128:
      put(bytes, value);
      put(bytes, value == 0 ? value : 0, sizeof(double));
      break;
    default:
      throw_internal("a splat of {} has no bytes", name(type.dtype));
  }
  Literal literal;
  literal.type = std::move(type);
  literal.splat = true;
  literal.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return literal;
}

Literal identity_literal(ReduceOp op, Type type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::Sum:
      return splat_literal(std::move(type), -0.0);  // 0.0 would lose a sign
    case ReduceOp::Or:
    case ReduceOp::Avg:
      return splat_literal(std::move(type), 0);
    case ReduceOp::Prod:
      return splat_literal(std::move(type), 1);
    case ReduceOp::Max:
      return splat_literal(std::move(type), -kInfinity);
    case ReduceOp::Min:
      return splat_literal(std::move(type), kInfinity);
    case ReduceOp::And:
      break;
  }
  if (type.dtype == DType::Bool) return splat_literal(std::move(type), 1);
  Literal literal = splat_literal(std::move(type), 0);
  literal.bytes = std::make_shared<const std::vector<std::byte>>(byte_size(literal.type.dtype),
                                                                 std::byte{0xff});
  return literal;
}

bool LocalOp::is_empty() const {
  if (node_.results.empty() || !node_.def->has(kPure)) return false;
  for (size_t i = 0; i < node_.results.size(); ++i) {
    const Type& type = whole_.result_type(node_, i);
    if (!type.is_tensor() || type.unranked || type.dtype == DType::Other ||
        num_elements(result_boxes[i].size) != 0)
      return false;
  }
  return true;
}

Type LocalOp::result_type(size_t i) const {
  Type type = whole_.result_type(node_, i);
  if (type.is_tensor() && !type.unranked) type.shape = result_boxes[i].size;
  return type;
}

std::vector<Type> LocalOp::result_types() const {
  std::vector<Type> types;
  for (size_t i = 0; i < node_.results.size(); ++i) types.push_back(result_type(i));
  return types;
}

std::vector<ValueId> LocalOp::emit_self(std::vector<ValueId> operands, AttrDict attrs) {
  const NodeId id =
      local_.add_node_like(node_, std::move(operands), result_types(), std::move(attrs));
  local_.append(region_, id);
  Cloner clone(whole_, local_, &map_);
  for (RegionId region : node_.regions) clone.region(region, local_.add_region(id));
  return local_.node(id).results;
}

ValueId LocalOp::emit(std::string_view op, std::vector<ValueId> operands, Type type,
                      AttrDict attrs) {
  const NodeId id = local_.add_node(op, std::move(operands), {std::move(type)}, std::move(attrs));
  local_.append(region_, id);
  local_.node(id).location = node_.location;
  return local_.node(id).results[0];
}

ValueId LocalOp::constant(Literal literal) {
  Type type = literal.type;
  AttrDict attrs;
  attrs.set("value", literal_attr(std::move(literal)));
  return emit("stablehlo.constant", {}, std::move(type), std::move(attrs));
}

ValueId LocalOp::splat(Type type, double value) {
  return constant(splat_literal(std::move(type), value));
}

ValueId LocalOp::slice(ValueId value, const Shape& start, const Shape& size) {
  Type type = local_.type(value);
  if (type.shape == size) return value;
  if (num_elements(size) == 0 && has_kernels(type.dtype)) {  // where it starts means nothing
    type.shape = size;
    return splat(std::move(type), 0);
  }
  Shape limit(size.size());
  for (size_t d = 0; d < size.size(); ++d) limit[d] = start[d] + size[d];
  type.shape = size;
  AttrDict attrs;
  attrs.set("start_indices", ints_attr(start));
  attrs.set("limit_indices", ints_attr(std::move(limit)));
  attrs.set("strides", ints_attr(Shape(size.size(), 1)));
  return emit("stablehlo.slice", {value}, std::move(type), std::move(attrs));
}

ValueId LocalOp::operand_part(size_t i, const ShardSlice& box) {
  const ShardSlice& held = operand_boxes[i];
  Shape start(box.offset.size());
  const bool is_empty = num_elements(box.size) == 0;
  for (size_t d = 0; d < start.size(); ++d) {
    start[d] = is_empty ? 0 : box.offset[d] - held.offset[d];
    internal_check(is_empty || (start[d] >= 0 && start[d] + box.size[d] <= held.size[d]),
                   "a device lacks elements that its part of an op needs");
  }
  return slice(operands[i], start, box.size);
}

ValueId LocalOp::broadcast_scalar(ValueId scalar, const Shape& shape) {
  Type type = local_.type(scalar);
  type.shape = shape;
  AttrDict attrs;
  attrs.set("broadcast_dimensions", ints_attr({}));
  return emit("stablehlo.broadcast_in_dim", {scalar}, std::move(type), std::move(attrs));
}

}  // namespace cleave
