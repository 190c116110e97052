#include <algorithm>

#include "cleave/ops/chlo/family.h"
#include "cleave/ops/elementwise/elementwise_util.h"
#include "cleave/ops/literal_array.h"

namespace cleave {
namespace {

constexpr unsigned kFunctions = kFloats | kComplexes;

// ---- ops that broadcast their operands ----

// chlo.broadcast_add -> the definition of stablehlo.add.
const OpDef& base_op(const Node& node) {
  const std::string base = node.name().substr(kBroadcastPrefix.size());
  const OpDef* def = find_op("stablehlo." + base);
  if (!def) def = find_op("chlo." + base);
  if (!def) throw_internal("{} has no op without broadcast", node.name());
  return *def;
}

// Where the dimensions of operand i go in a result of the given rank: to the last ones, or, for the
// operand of lower rank, to broadcast_dimensions.
Shape placement(const Node& node, size_t operand_rank, size_t rank) {
  Shape dims(operand_rank);
  for (size_t d = 0; d < operand_rank; ++d) dims[d] = static_cast<int64_t>(rank - operand_rank + d);
  if (operand_rank < rank && node.attrs.has("broadcast_dimensions"))
    dims = node.attrs.get_ints("broadcast_dimensions");
  return dims;
}

Shape broadcast_shape(const Node& node, std::span<const Shape> shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape result(rank, 1);
  for (const Shape& shape : shapes) {
    const Shape dims = placement(node, shape.size(), rank);
    require(dims.size() == shape.size(), node,
            "broadcast_dimensions {} must have one entry per dimension of {}", ints_text(dims),
            to_string(shape));
    require_distinct_dims(node, "broadcast_dimensions", dims, rank);
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& size = result[dims[d]];
      require(size == 1 || shape[d] == 1 || compatible(size, shape[d]), node,
              "dimension {} of shape {} can't be broadcast to {}", d, to_string(shape), size);
      if (size == 1 || (is_dynamic(size) && shape[d] != 1)) size = shape[d];
    }
  }
  return result;
}

std::vector<Type> infer_broadcast(const Graph& graph, const Node& node) {
  const bool selects = node.name() == "chlo.broadcast_select";
  require_operands(node, selects ? 3 : 2);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Type& type = tensor_operand(graph, node, i);
    require(i <= size_t{selects} || type.dtype == tensor_operand(graph, node, selects).dtype, node,
            "operands must have one element type, got {}", operand_types_text(graph, node));
    if (type.unranked) return infer_declared(graph, node);
    shapes.push_back(type.shape);
  }
  DType dtype = tensor_operand(graph, node, selects).dtype;
  if (node.name() == "chlo.broadcast_compare") {
    comparison_of(node);
    dtype = DType::Bool;
  }
  if (node.name() == "chlo.broadcast_complex") dtype = result_dtype(BinaryOp::Complex, dtype);
  return {Type::tensor(dtype, broadcast_shape(node, shapes))};
}
OpShardingRule broadcasting_rule(const Graph& graph, const Node& node) {
  const Shape& out = graph.result_type(node).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < out.size(); ++d) {
    std::vector<int> dims(node.operands.size(), kNoDim);
    for (size_t i = 0; i < dims.size(); ++i) {
      const Shape& shape = graph.operand_type(node, i).shape;
      const Shape places = placement(node, shape.size(), out.size());
      for (size_t k = 0; k < shape.size(); ++k)
        if (places[k] == static_cast<int64_t>(d) && shape[k] == out[d]) dims[i] = int(k);
    }
    builder.factor(dims, {int(d)}, out[d]);
  }
  return builder.build();
}
PartialTransfer broadcasting_partial(const Graph& graph, const Node& node) {
  const OpDef& base = base_op(node);
  return base.partial ? base.partial(graph, node) : PartialTransfer{};
}
std::vector<Array> eval_broadcast(EvalContext& context, const Node& node,
                                  std::span<const Array> in) {
  std::vector<Shape> shapes;
  for (const Array& array : in) shapes.push_back(array.shape());
  const Shape shape = broadcast_shape(node, shapes);
  std::vector<Array> arrays;
  for (const Array& array : in)
    arrays.push_back(array.broadcast(shape, placement(node, array.rank(), shape.size())));
  return base_op(node).eval(context, node, arrays);
}

// ---- constants ----

std::vector<Type> infer_constant(const Graph&, const Node& node) {
  require_operands(node, 0);
  return {node.attrs.get_literal("value").type};
}
std::vector<Array> eval_constant(EvalContext&, const Node& node, std::span<const Array>) {
  return {array_of(node.attrs.get_literal("value"))};
}

// The value of constant_like: a scalar attribute.
struct LikeValue {
  DType dtype;
  double number;
  int64_t integer;
};
LikeValue like_value(const Node& node) {
  const Attribute* value = node.attrs.find("value");
  require(value != nullptr, node, "attribute 'value' is missing");
  if (auto* number = value->as<FloatAttr>()) return {number->type.dtype, number->value, 0};
  if (auto* integer = value->as<IntegerAttr>()) return {integer->type.dtype, 0, integer->value};
  if (auto* boolean = value->as<bool>()) return {DType::Bool, 0, *boolean};
  fail(node, "'value' must be a number");
}
std::vector<Type> infer_constant_like(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  Type type = tensor_operand(graph, node, 0);
  type.dtype = like_value(node).dtype;
  return {type};
}
std::vector<Array> eval_constant_like(EvalContext&, const Node& node, std::span<const Array> in) {
  const LikeValue value = like_value(node);
  const Array scalar = is_float(value.dtype) ? Array::scalar<double>(DType::F64, value.number)
                                             : Array::scalar<int64_t>(DType::I64, value.integer);
  return {splat(convert(scalar, value.dtype), in[0].shape())};
}

template <UnaryOp op>
void add_test(OpRegistry& registry, const char* name) {
  registry.add({.name = name,
                .traits = kElementwiseTraits,
                .infer = infer_elementwise_to<kFloats, 1, to_bool>,
                .rule = pointwise_rule,
                .eval = eval_unary<op>,
                .loop = loop_unary<op>,
                .in_place = InPlace::AnyOperand});
}

}  // namespace

void register_chlo_ops(OpRegistry& r) {
  add_function<UnaryOp::Acos, kFunctions>(r, "chlo.acos");
  add_function<UnaryOp::Acosh, kFunctions>(r, "chlo.acosh", increasing_above_partial);
  add_function<UnaryOp::Asin, kFunctions>(r, "chlo.asin");
  add_function<UnaryOp::Asinh, kFunctions>(r, "chlo.asinh", increasing_partial);
  add_function<UnaryOp::Atan, kFunctions>(r, "chlo.atan", increasing_partial);
  add_function<UnaryOp::Atanh, kFunctions>(r, "chlo.atanh");
  add_function<UnaryOp::Cosh, kFunctions>(r, "chlo.cosh");
  add_function<UnaryOp::Sinh, kFunctions>(r, "chlo.sinh", increasing_partial);
  add_function<UnaryOp::Tan, kFunctions>(r, "chlo.tan");
  add_function<UnaryOp::BesselI1e, kFloats>(r, "chlo.bessel_i1e");
  add_function<UnaryOp::Digamma, kFloats>(r, "chlo.digamma");
  add_function<UnaryOp::Erf, kFloats>(r, "chlo.erf", increasing_partial, kSmooth | kSlowFunction);
  add_function<UnaryOp::Erfc, kFloats>(r, "chlo.erfc", decreasing_partial, kSmooth | kSlowFunction);
  add_function<UnaryOp::ErfInv, kFloats>(r, "chlo.erf_inv");
  add_function<UnaryOp::Lgamma, kFloats>(r, "chlo.lgamma");
  add_unary<UnaryOp::Conj, kFunctions>(r, "chlo.conj", linear_partial);
  add_unary<UnaryOp::Square, kFunctions | kInts>(r, "chlo.square");
  add_test<UnaryOp::IsInf>(r, "chlo.is_inf");
  add_test<UnaryOp::IsPosInf>(r, "chlo.is_pos_inf");
  add_test<UnaryOp::IsNegInf>(r, "chlo.is_neg_inf");
  add_binary<BinaryOp::NextAfter, kFloats>(r, "chlo.next_after", nullptr, kReadsWidth);
  add_binary<BinaryOp::Polygamma, kFloats>(r, "chlo.polygamma", nullptr, 0, function_cost);
  add_binary<BinaryOp::Zeta, kFloats>(r, "chlo.zeta", nullptr, 0, function_cost);
  add_binary<BinaryOp::MulHi, kInts>(r, "chlo.mulhi");

  for (const char* base : kBroadcastingOps)
    r.add({.name = std::string(kBroadcastPrefix) + base,
           .traits = kPure,
           .infer = infer_broadcast,
           .rule = broadcasting_rule,
           .partial = broadcasting_partial,
           .eval = eval_broadcast});

  r.add({.name = "chlo.constant",
         .traits = kPure | kConstantLike,
         .infer = infer_constant,
         .eval = eval_constant});
  r.add({.name = "chlo.constant_like",
         .traits = kPure,
         .infer = infer_constant_like,
         .rule = pointwise_rule,
         .eval = eval_constant_like});
}

}  // namespace cleave
