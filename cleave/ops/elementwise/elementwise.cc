#include <cmath>

#include "cleave/kernels/workspace.h"
#include "cleave/ops/elementwise/divisor.h"
#include "cleave/ops/elementwise/elementwise_util.h"
#include "cleave/ops/elementwise/family.h"
#include "cleave/ops/families.h"
#include "cleave/ops/region_check.h"

namespace cleave {
namespace {

constexpr unsigned kNumbers = kInts | kFloats | kComplexes;
constexpr unsigned kAnything = kNumbers | kBools;
constexpr unsigned kFunctions = kFloats | kComplexes;
constexpr unsigned kLogical = kInts | kBools;

bool is_real_float(const Graph& graph, const Node& node) {
  return is_float(graph.operand_type(node, 0).dtype);
}

// Of each operand alone, under each reduction.
PartialTransfer each_operand(const Node& node, std::initializer_list<ReduceOp> ops) {
  PartialTransfer rows;
  for (size_t i = 0; i < node.operands.size(); ++i) append(rows, rows_of_operand(node, i, ops));
  return rows;
}

// Bitwise and distributes over or, and swallows itself.
PartialTransfer and_partial(const Graph&, const Node& node) {
  PartialTransfer rows = rows_all_operands(node, {ReduceOp::And});
  append(rows, each_operand(node, {ReduceOp::And, ReduceOp::Or}));
  return rows;
}
PartialTransfer or_partial(const Graph&, const Node& node) {
  PartialTransfer rows = rows_all_operands(node, {ReduceOp::Or});
  append(rows, each_operand(node, {ReduceOp::And, ReduceOp::Or}));
  return rows;
}
// Not is also -1 - x, which turns the order around.
PartialTransfer not_partial(const Graph& graph, const Node& node) {
  PartialTransfer rows = {{ReduceOp::And, {true}, ReduceOp::Or},
                          {ReduceOp::Or, {true}, ReduceOp::And}};
  if (graph.operand_type(node, 0).dtype == DType::Bool) return rows;
  append(rows, {{ReduceOp::Max, {true}, ReduceOp::Min}, {ReduceOp::Min, {true}, ReduceOp::Max}});
  return rows;
}

// x + c moves an average and, being increasing in x, carries Max and Min.
PartialTransfer add_partial(const Graph& graph, const Node& node) {
  if (graph.operand_type(node, 0).dtype == DType::Bool) return or_partial(graph, node);
  PartialTransfer rows = linear_partial(graph, node);
  if (is_real_float(graph, node))
    append(rows, each_operand(node, {ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min}));
  return rows;
}
PartialTransfer subtract_partial(const Graph& graph, const Node& node) {
  PartialTransfer rows = linear_partial(graph, node);
  if (!is_real_float(graph, node)) return rows;
  append(rows, each_operand(node, {ReduceOp::Avg}));
  append(rows, rows_of_operand(node, 0, {ReduceOp::Max, ReduceOp::Min}));
  rows.push_back({ReduceOp::Max, {false, true}, ReduceOp::Min});
  rows.push_back({ReduceOp::Min, {false, true}, ReduceOp::Max});
  return rows;
}
PartialTransfer multiply_partial(const Graph& graph, const Node& node) {
  if (graph.operand_type(node, 0).dtype == DType::Bool) return and_partial(graph, node);
  PartialTransfer rows = bilinear_partial(graph, node);
  append(rows, rows_all_operands(node, {ReduceOp::Prod}));
  return rows;
}
PartialTransfer divide_partial(const Graph& graph, const Node& node) {
  if (is_integer(graph.operand_type(node, 0).dtype)) return {};
  PartialTransfer rows;
  if (divisor_is_nonzero(graph, node))
    rows = rows_of_operand(node, 0, {ReduceOp::Sum, ReduceOp::Avg});
  append(rows, rows_all_operands(node, {ReduceOp::Prod}));
  return rows;
}
// |xy| = |x||y|
PartialTransfer abs_partial(const Graph& graph, const Node& node) {
  if (!is_real_float(graph, node)) return {};
  return rows_of_operand(node, 0, {ReduceOp::Prod});
}
PartialTransfer sign_partial(const Graph& graph, const Node& node) {
  PartialTransfer rows = increasing_partial(graph, node);
  append(rows, abs_partial(graph, node));
  return rows;
}
// Decreasing where it is defined. A part of a maximum may be below 0, where it is not.
PartialTransfer rsqrt_partial(const Graph& graph, const Node& node) {
  if (!is_real_float(graph, node)) return {};
  return {{ReduceOp::Min, {true}, ReduceOp::Max}};
}
// a < b where all parts of a maximum a are, or b is less than no part of a minimum b. "Some part
// is" says nothing once a part is NaN.
PartialTransfer compare_partial(const Graph& graph, const Node& node) {
  if (is_complex(graph.operand_type(node, 0).dtype)) return {};
  const std::string_view direction = node.attrs.get_string("comparison_direction");
  if (direction.starts_with('L'))
    return {{ReduceOp::Max, {true, false}, ReduceOp::And},
            {ReduceOp::Min, {false, true}, ReduceOp::And}};
  if (direction.starts_with('G'))
    return {{ReduceOp::Min, {true, false}, ReduceOp::And},
            {ReduceOp::Max, {false, true}, ReduceOp::And}};
  return {};
}
// Max of a partial max; also max(min(x, y), c) = min(max(x, c), max(y, c)).
PartialTransfer maximum_partial(const Graph& graph, const Node& node) {
  const DType dtype = graph.operand_type(node, 0).dtype;
  if (dtype == DType::Bool) return or_partial(graph, node);
  if (is_complex(dtype)) return {};
  PartialTransfer rows = rows_all_operands(node, {ReduceOp::Max});
  append(rows, each_operand(node, {ReduceOp::Max, ReduceOp::Min}));
  return rows;
}
PartialTransfer minimum_partial(const Graph& graph, const Node& node) {
  const DType dtype = graph.operand_type(node, 0).dtype;
  if (dtype == DType::Bool) return and_partial(graph, node);
  if (is_complex(dtype)) return {};
  PartialTransfer rows = rows_all_operands(node, {ReduceOp::Min});
  append(rows, each_operand(node, {ReduceOp::Max, ReduceOp::Min}));
  return rows;
}
PartialTransfer shift_left_partial(const Graph&, const Node& node) {
  return rows_of_operand(node, 0, {ReduceOp::Sum, ReduceOp::And, ReduceOp::Or});
}
PartialTransfer shift_right_partial(const Graph&, const Node& node) {
  return rows_of_operand(node, 0, {ReduceOp::And, ReduceOp::Or});
}
PartialTransfer arithmetic_shift_partial(const Graph&, const Node& node) {
  return rows_of_operand(node, 0, {ReduceOp::And, ReduceOp::Or, ReduceOp::Max, ReduceOp::Min});
}
// min(max(x, low), high) is increasing in each. Maxima of x and low, and minima with high, go
// through together.
PartialTransfer clamp_partial(const Graph&, const Node& node) {
  PartialTransfer rows = each_operand(node, {ReduceOp::Max, ReduceOp::Min});
  append(rows, {{ReduceOp::Max, {true, true, false}, ReduceOp::Max},
                {ReduceOp::Min, {false, true, true}, ReduceOp::Min},
                {ReduceOp::Min, {true, false, true}, ReduceOp::Min}});
  return rows;
}
// Both branches under any reduction; one alone where equal parts reduce to themselves.
PartialTransfer select_partial(const Graph&, const Node&) {
  PartialTransfer rows;
  for (ReduceOp op : kAllReduceOps) rows.push_back({op, {false, true, true}, op});
  for (ReduceOp op : kIdempotentReduceOps) {
    rows.push_back({op, {false, true, false}, op});
    rows.push_back({op, {false, false, true}, op});
  }
  return rows;
}

// How many powers of two a float type spans: where the target spans as many, no part overflows.
int exponent_bits(DType dtype) {
  switch (real_part_type(dtype)) {
    case DType::F64:
      return 11;
    case DType::F32:
    case DType::BF16:
    case DType::TF32:
      return 8;
    case DType::F16:
      return 5;
    default:
      return 0;
  }
}
PartialTransfer convert_partial(const Graph& graph, const Node& node) {
  const DType from = graph.operand_type(node, 0).dtype, to = graph.result_type(node).dtype;
  const bool floats = (is_float(from) || is_complex(from)) && (is_float(to) || is_complex(to));
  PartialTransfer rows;
  if (floats && exponent_bits(from) > 0 && exponent_bits(to) >= exponent_bits(from))
    append(rows, rows_of_operand(node, 0, {ReduceOp::Sum, ReduceOp::Avg}));
  if (is_float(from) && is_float(to))
    append(rows, rows_of_operand(node, 0, {ReduceOp::Max, ReduceOp::Min}));
  if (is_integer(from) && is_integer(to)) {
    if (bit_width(to) <= bit_width(from)) append(rows, rows_of_operand(node, 0, {ReduceOp::Sum}));
    const bool keeps_order = is_signed_integer(from) == is_signed_integer(to)
                                 ? bit_width(to) >= bit_width(from)
                                 : is_signed_integer(to) && bit_width(to) > bit_width(from);
    if (keeps_order) append(rows, rows_of_operand(node, 0, {ReduceOp::Max, ReduceOp::Min}));
    append(rows, rows_of_operand(node, 0, {ReduceOp::And, ReduceOp::Or}));
  }
  if (is_integer(from) && is_float(to))
    append(rows, rows_of_operand(node, 0, {ReduceOp::Max, ReduceOp::Min}));
  if (from == DType::Bool && (is_integer(to) || is_float(to))) {
    rows.push_back({ReduceOp::Or, {true}, ReduceOp::Max});
    rows.push_back({ReduceOp::And, {true}, ReduceOp::Min});
  }
  return rows;
}
PartialTransfer reduce_precision_partial(const Graph& graph, const Node& node) {
  if (node.attrs.get_int("mantissa_bits") == 0) return {};
  return increasing_partial(graph, node);
}

DType complex_of(DType real) { return real == DType::F64 ? DType::C128 : DType::C64; }

std::vector<Type> infer_convert(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  Type type = tensor_operand(graph, node, 0);
  const Type& declared = declared_result(graph, node);
  require(type.unranked || declared.unranked || compatible(type.shape, declared.shape), node,
          "operand {} and result {} must have one shape", to_string(type), to_string(declared));
  type.dtype = declared.dtype;
  type.text = declared.text;
  if (!declared.unranked && !type.unranked) type.shape = merge(type.shape, declared.shape);
  return {type};
}
std::vector<Array> eval_convert(EvalContext& context, const Node& node, std::span<const Array> in) {
  return {convert(in[0], context.graph().result_type(node).dtype)};
}
// A conversion to the same type gives its operand back.
std::vector<Array> alias_of_same_type(const Graph& graph, const Node& node,
                                      std::span<const Array> in) {
  if (in[0].dtype() != graph.result_type(node).dtype) return {};
  return {in[0]};
}

std::vector<Type> infer_bitcast(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& result = declared_result(graph, node);
  const int from = bit_width(operand.dtype), to = bit_width(result.dtype);
  require(is_complex(operand.dtype) == is_complex(result.dtype), node,
          "complex and real types don't mix: {} to {}", to_string(operand), to_string(result));
  Shape expected = operand.shape;
  // The bits of elements that are kept as text, such as quantized ones, are not known.
  const bool known = from > 0 && to > 0;
  require(!known || from % to == 0 || to % from == 0, node,
          "the bits of {} do not make elements of {}", to_string(operand), to_string(result));
  if (known && from > to) expected.push_back(from / to);
  if (known && from < to) {
    require(!expected.empty() && compatible(expected.back(), to / from), node,
            "the last dimension of {} must be {} to make {}", to_string(operand), to / from,
            to_string(result));
    expected.pop_back();
  }
  require(compatible(expected, result.shape), node, "{} can't be seen as {}", to_string(operand),
          to_string(result));
  return {result};
}
// The dimension that is made or taken belongs to one side alone.
OpShardingRule bitcast_rule(const Graph& graph, const Node& node) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  RuleBuilder builder(graph, node);
  const size_t common = std::min(in.size(), out.size());
  for (size_t d = 0; d < common; ++d) builder.factor({int(d)}, {int(d)}, in[d]);
  if (in.size() > common)
    builder.factor({int(common)}, {kNoDim}, in.back(), FactorKind::NeedReplication);
  if (out.size() > common)
    builder.factor({kNoDim}, {int(common)}, out.back(), FactorKind::NeedReplication);
  return builder.build();
}
// Between types of one size it is elementwise.
PropagationClass class_of_bitcast(const Graph& graph, const Node& node) {
  const bool same = graph.operand_type(node, 0).shape == graph.result_type(node).shape;
  return same ? PropagationClass::Elementwise : PropagationClass::Other;
}
std::vector<Array> eval_bitcast(EvalContext& context, const Node& node, std::span<const Array> in) {
  const Type& type = context.graph().result_type(node);
  Shape shape = in[0].shape();
  const int from = bit_width(in[0].dtype()), to = bit_width(type.dtype);
  if (from > to) shape.push_back(from / to);
  if (from < to) shape.pop_back();
  return {bitcast_convert(in[0], type.dtype, shape)};
}

std::vector<Type> infer_compare(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  Type type = merged_operand_type(graph, node);
  const Comparison comparison = comparison_of(node);
  require(!is_complex(type.dtype) || comparison.op <= CompareOp::Ne, node,
          "complex numbers compare with EQ and NE alone, got {}", operand_types_text(graph, node));
  type.dtype = DType::Bool;
  type.text.clear();
  return {type};
}
std::vector<Array> eval_compare(EvalContext&, const Node& node, std::span<const Array> in) {
  const Comparison comparison = comparison_of(node);
  return {compare(comparison.op, in[0], in[1], comparison.total_order)};
}

ElementLoop loop_convert(const Graph& graph, const Node& node) {
  const DType from = graph.operand_type(node, 0).dtype, to = graph.result_type(node).dtype;
  return {convert_loop(from, to), {from}, to};
}
ElementLoop loop_compare(const Graph& graph, const Node& node) {
  const Comparison comparison = comparison_of(node);
  return element_loop(
      compare_loop(comparison.op, graph.operand_type(node, 0).dtype, comparison.total_order));
}
ElementLoop loop_select(const Graph& graph, const Node& node) {
  const DType dtype = graph.result_type(node).dtype;
  if (!has_kernels(dtype)) return {};
  return {select_loop(dtype), {DType::Bool, dtype, dtype}, dtype};
}

std::vector<Type> infer_select(const Graph& graph, const Node& node) {
  require_operands(node, 3);
  const Type& pred = tensor_operand(graph, node, 0);
  Type type = tensor_operand(graph, node, 1);
  const Type& other = tensor_operand(graph, node, 2);
  require(pred.dtype == DType::Bool, node, "operand 0 must be i1, got {}", to_string(pred));
  require(compatible(type, other), node, "operands 1 and 2 must have one type, got {}",
          operand_types_text(graph, node));
  require(pred.unranked || pred.rank() == 0 || type.unranked || compatible(pred.shape, type.shape),
          node, "operand 0 must be a scalar or have the shape of the others, got {}",
          operand_types_text(graph, node));
  if (!type.unranked && !other.unranked) type.shape = merge(type.shape, other.shape);
  return {type};
}
std::vector<Array> eval_select(EvalContext&, const Node&, std::span<const Array> in) {
  return {select(in[0], in[1], in[2])};
}

std::vector<Type> infer_clamp(const Graph& graph, const Node& node) {
  require_operands(node, 3);
  const Type& operand = tensor_operand(graph, node, 1);
  for (size_t i : {0, 2}) {
    const Type& bound = tensor_operand(graph, node, i);
    require(
        bound.dtype == operand.dtype && (bound.unranked || operand.unranked || bound.rank() == 0 ||
                                         compatible(bound.shape, operand.shape)),
        node, "bounds must be scalars or have the operand's type, got {}",
        operand_types_text(graph, node));
  }
  return {operand};
}
std::vector<Array> eval_clamp(EvalContext&, const Node&, std::span<const Array> in) {
  return {clamp(in[0], in[1], in[2])};
}
// Bounded from below first, and that from above.
int64_t clamp_workspace(const Graph& graph, const Node& node, std::span<const Array> in) {
  return graph.result_type(node).byte_count() + packed_operand_bytes(in);
}

void verify_reduce_precision(const Graph&, const Node& node) {
  require(node.attrs.get_int("exponent_bits") >= 1, node, "exponent_bits must be at least 1");
  require(node.attrs.get_int("mantissa_bits") >= 0, node, "mantissa_bits must not be negative");
}
std::vector<Array> eval_reduce_precision(EvalContext&, const Node& node,
                                         std::span<const Array> in) {
  return {reduce_precision(in[0], static_cast<int>(node.attrs.get_int("exponent_bits")),
                           static_cast<int>(node.attrs.get_int("mantissa_bits")))};
}

std::vector<Type> infer_map(const Graph& graph, const Node& node) {
  require(!node.operands.empty(), node, "takes at least one operand");
  require(node.regions.size() == 1, node, "takes one region");
  Type type = tensor_operand(graph, node, 0);
  for (size_t i = 1; i < node.operands.size(); ++i)
    require(compatible(type.shape, tensor_operand(graph, node, i).shape), node,
            "operands must have one shape, got {}", operand_types_text(graph, node));
  const Region& body = graph.region(node.regions[0]);
  require(body.args.size() == node.operands.size() && !body.nodes.empty(), node,
          "the region must take one scalar per operand and return one");
  const Node& end = graph.node(body.nodes.back());
  require(end.operands.size() == 1, node, "the region must return one scalar");
  type.dtype = graph.type(end.operands[0]).dtype;
  return {type};
}
void verify_map(const Graph& graph, const Node& node) {
  std::vector<DType> args;
  for (ValueId operand : node.operands) args.push_back(graph.type(operand).dtype);
  require_scalar_region(graph, node, 0, "region", args, {graph.result_type(node).dtype});
  const std::vector<int64_t> dims = node.attrs.get_ints_or_empty("dimensions");
  const size_t rank = graph.operand_type(node, 0).rank();
  require(dims.size() == rank, node, "dimensions {} must list every dimension of rank {}",
          ints_text(dims), rank);
  for (size_t d = 0; d < rank; ++d)
    require(dims[d] == static_cast<int64_t>(d), node, "dimensions {} must count from 0",
            ints_text(dims));
}
std::vector<Array> eval_map(EvalContext& context, const Node& node, std::span<const Array> in) {
  return context.map_region(node.regions[0], in);
}

template <UnaryOp op, unsigned domain, DType (*result)(DType)>
void add_unary_to(OpRegistry& registry, const char* name, PartialFn partial = nullptr) {
  registry.add({.name = name,
                .traits = kElementwiseTraits,
                .infer = infer_elementwise_to<domain, 1, result>,
                .rule = pointwise_rule,
                .partial = partial,
                .eval = eval_unary<op>,
                .loop = loop_unary<op>,
                .in_place = InPlace::AnyOperand});
}

void register_arithmetic(OpRegistry& r) {
  add_binary<BinaryOp::Add, kAnything>(r, "stablehlo.add", add_partial, kCommutative | kSmooth);
  add_binary<BinaryOp::Subtract, kNumbers>(r, "stablehlo.subtract", subtract_partial, kSmooth);
  add_binary<BinaryOp::Multiply, kAnything>(r, "stablehlo.multiply", multiply_partial,
                                            kCommutative | kSmooth);
  add_binary<BinaryOp::Divide, kNumbers>(r, "stablehlo.divide", divide_partial, kSmooth);
  add_binary<BinaryOp::Remainder, kNumbers>(r, "stablehlo.remainder");
  add_binary<BinaryOp::Maximum, kAnything>(r, "stablehlo.maximum", maximum_partial, kCommutative);
  add_binary<BinaryOp::Minimum, kAnything>(r, "stablehlo.minimum", minimum_partial, kCommutative);
  add_binary<BinaryOp::And, kLogical>(r, "stablehlo.and", and_partial, kCommutative);
  add_binary<BinaryOp::Or, kLogical>(r, "stablehlo.or", or_partial, kCommutative);
  add_binary<BinaryOp::Xor, kLogical>(r, "stablehlo.xor", nullptr, kCommutative);
  add_binary<BinaryOp::ShiftLeft, kInts>(r, "stablehlo.shift_left", shift_left_partial);
  add_binary<BinaryOp::ShiftRightArithmetic, kInts>(r, "stablehlo.shift_right_arithmetic",
                                                    arithmetic_shift_partial);
  add_binary<BinaryOp::ShiftRightLogical, kInts>(r, "stablehlo.shift_right_logical",
                                                 shift_right_partial, kReadsBits);
  add_binary<BinaryOp::Atan2, kFunctions>(r, "stablehlo.atan2", nullptr, 0, function_cost);
  add_binary<BinaryOp::Power, kNumbers>(r, "stablehlo.power", nullptr, kSmooth | kSlowFunction,
                                        function_cost);
  r.add({.name = "stablehlo.complex",
         .traits = kElementwiseTraits,
         .infer = infer_elementwise_to<kFloats, 2, complex_of>,
         .rule = pointwise_rule,
         .partial = linear_partial,
         .eval = eval_binary<BinaryOp::Complex>,
         .loop = loop_binary<BinaryOp::Complex>,
         .in_place = InPlace::AnyOperand});

  add_unary_to<UnaryOp::Abs, kNumbers, real_part_type>(r, "stablehlo.abs", abs_partial);
  add_unary_to<UnaryOp::Real, kFunctions, real_part_type>(r, "stablehlo.real", linear_partial);
  add_unary_to<UnaryOp::Imag, kFunctions, real_part_type>(r, "stablehlo.imag", linear_partial);
  add_unary_to<UnaryOp::IsFinite, kFloats, to_bool>(r, "stablehlo.is_finite");
  add_unary<UnaryOp::Negate, kNumbers>(r, "stablehlo.negate", negate_partial, kSmooth);
  add_unary<UnaryOp::Sign, kNumbers>(r, "stablehlo.sign", sign_partial);
  add_unary<UnaryOp::Not, kLogical>(r, "stablehlo.not", not_partial);
  add_unary<UnaryOp::Popcnt, kInts>(r, "stablehlo.popcnt", nullptr, kReadsBits);
  add_unary<UnaryOp::CountLeadingZeros, kInts>(r, "stablehlo.count_leading_zeros", nullptr,
                                               kReadsBits);
  add_unary<UnaryOp::Ceil, kFloats>(r, "stablehlo.ceil", increasing_partial);
  add_unary<UnaryOp::Floor, kFloats>(r, "stablehlo.floor", increasing_partial);
  add_unary<UnaryOp::RoundAfz, kFloats>(r, "stablehlo.round_nearest_afz", increasing_partial);
  add_unary<UnaryOp::RoundEven, kFloats>(r, "stablehlo.round_nearest_even", increasing_partial);
}

void register_functions(OpRegistry& r) {
  add_function<UnaryOp::Cbrt, kFunctions>(r, "stablehlo.cbrt", increasing_partial);
  add_function<UnaryOp::Cos, kFunctions>(r, "stablehlo.cosine", nullptr, kSlowFunction);
  add_function<UnaryOp::Exp, kFunctions>(r, "stablehlo.exponential", increasing_partial,
                                         kSmooth | kSlowFunction);
  add_function<UnaryOp::Expm1, kFunctions>(r, "stablehlo.exponential_minus_one",
                                           increasing_partial);
  add_function<UnaryOp::Log, kFunctions>(r, "stablehlo.log", increasing_above_partial,
                                         kSlowFunction);
  add_function<UnaryOp::Log1p, kFunctions>(r, "stablehlo.log_plus_one", increasing_above_partial);
  add_function<UnaryOp::Logistic, kFunctions>(r, "stablehlo.logistic", increasing_partial,
                                              kSmooth | kSlowFunction);
  add_function<UnaryOp::Rsqrt, kFunctions>(r, "stablehlo.rsqrt", rsqrt_partial);
  add_function<UnaryOp::Sin, kFunctions>(r, "stablehlo.sine", nullptr, kSlowFunction);
  add_function<UnaryOp::Sqrt, kFunctions>(r, "stablehlo.sqrt", increasing_above_partial);
  add_function<UnaryOp::Tan, kFunctions>(r, "stablehlo.tan");
  add_function<UnaryOp::Tanh, kFunctions>(r, "stablehlo.tanh", increasing_partial,
                                          kSmooth | kSlowFunction);
}

}  // namespace

void register_elementwise_ops(OpRegistry& r) {
  register_arithmetic(r);
  register_functions(r);
  r.add({.name = "stablehlo.convert",
         .traits = kElementwiseTraits | kRelabels,
         .infer = infer_convert,
         .rule = pointwise_rule,
         .partial = convert_partial,
         .eval = eval_convert,
         .loop = loop_convert,
         .alias = alias_of_same_type});
  r.add({.name = "stablehlo.bitcast_convert",
         .traits = kPure | kReadsWidth,
         .infer = infer_bitcast,
         .rule = bitcast_rule,
         .eval = eval_bitcast,
         .propagation_class = class_of_bitcast});
  r.add({.name = "stablehlo.compare",
         .traits = kElementwiseTraits,
         .infer = infer_compare,
         .rule = pointwise_rule,
         .partial = compare_partial,
         .eval = eval_compare,
         .loop = loop_compare});
  r.add({.name = "stablehlo.select",
         .traits = kElementwiseTraits,
         .infer = infer_select,
         .rule = pointwise_rule,
         .partial = select_partial,
         .eval = eval_select,
         .loop = loop_select});
  r.add({.name = "stablehlo.clamp",
         .traits = kElementwiseTraits,
         .infer = infer_clamp,
         .rule = pointwise_rule,
         .partial = clamp_partial,
         .eval = eval_clamp,
         .workspace = clamp_workspace});
  r.add({.name = "stablehlo.reduce_precision",
         .traits = kElementwiseTraits,
         .infer = infer_elementwise<kFloats, 1>,
         .verify = verify_reduce_precision,
         .rule = pointwise_rule,
         .partial = reduce_precision_partial,
         .eval = eval_reduce_precision});
  r.add({.name = "stablehlo.map",
         .traits = kPure,
         .infer = infer_map,
         .verify = verify_map,
         .rule = pointwise_rule,
         .eval = eval_map});
}

}  // namespace cleave
