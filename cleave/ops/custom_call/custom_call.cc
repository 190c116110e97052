#include "cleave/ops/custom_call/custom_call.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/derived_rule.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/sort.h"
#include "cleave/ops/check.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/custom_call/custom_call_check.h"
#include "cleave/ops/custom_call/family.h"
#include "cleave/ops/custom_call/register_op.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"
#include "cleave/ops/sort/sort_by_comparator.h"

namespace cleave {
namespace {

std::string_view target_of(const Node& node) { return node.attrs.get_string("call_target_name"); }

bool is_any_of(std::string_view target, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, target) != names.end();
}

}  // namespace

bool is_identity_call(std::string_view target) {
  return is_any_of(target, {"annotate_device_placement", "InspectSharding", "LayoutConstraint",
                            "MoveToDevice", "MoveToHost", "Sharding", "SPMDFullToShardShape",
                            "SPMDShardToFullShape", "xla.megascale.provide_metadata"});
}

Attribute layout_attr(std::span<const int64_t> order) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (int64_t d : order) {
    const auto* first = reinterpret_cast<const std::byte*>(&d);
    bytes->insert(bytes->end(), first, first + sizeof d);
  }
  Literal literal;
  literal.type = Type::tensor(DType::Index, {static_cast<int64_t>(order.size())});
  literal.bytes = std::move(bytes);
  return literal_attr(std::move(literal));
}

AttrDict dimensions_in_order(size_t rank) {
  std::vector<int64_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(rank - 1 - i);
  AttrDict attrs;
  attrs.set("call_target_name", string_attr("LayoutConstraint"));
  for (const char* name : {"operand_layouts", "result_layouts"})
    attrs.set(name, ArrayAttr{{layout_attr(order)}});
  return attrs;
}

namespace {

// ---- rules, by target

bool is_pointwise_call(std::string_view target) {
  return is_any_of(
      target,
      {"annotate_device_placement", "Cholesky", "CompactWyHelper", "InspectSharding",
       "InvertDiagBlocksLowerTriangular", "InvertDiagBlocksUpperTriangular", "LayoutConstraint",
       "mhlo.erf", "MoveToDevice", "MoveToHost", "X64SplitHigh", "X64SplitLow",
       "xla.megascale.provide_metadata", "_SPMDInternalOp_MultiPad", "_SPMDInternalOp_RotateRight",
       "_SPMDInternalOp_MultiRotate", "_SPMDInternalOp_MultiSlice", "_SPMDInternalOp_Wrap"});
}

}  // namespace

bool is_builtin_call(std::string_view target) {
  return is_pointwise_call(target) || is_identity_call(target) || is_linalg_call(target) ||
         is_check_call(target) ||
         is_any_of(target, {"ApproxTopK", "Eigh", "mhlo.topk", "PartialReduce",
                            "ProductOfElementaryHouseholderReflectors", "Qr",
                            "QrDecompositionBlock", "shape_assertion", "X64Combine"});
}

namespace {

// The dimensions before the matrices.
void add_batch_dims(RuleBuilder& builder, const Shape& shape) {
  for (size_t d = 0; d + 2 < shape.size(); ++d) builder.same_dim(static_cast<int>(d), shape[d]);
}

// {..., m, n} -> vectors {..., m, n} and values {..., n}
OpShardingRule eigh_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const int row = static_cast<int>(shape.size()) - 2, col = row + 1;
  RuleBuilder builder(graph, node);
  add_batch_dims(builder, shape);
  return builder.factor({row}, {row, kNoDim}, shape[row])
      .factor({col}, {col, row}, shape[col])
      .build();
}

// {..., m, n} -> {..., m, n} and taus {..., k}
OpShardingRule qr_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const int row = static_cast<int>(shape.size()) - 2, col = row + 1;
  const auto kind = FactorKind::NeedReplication;
  RuleBuilder builder(graph, node);
  add_batch_dims(builder, shape);
  return builder.factor({row}, {row, kNoDim}, shape[row], kind)
      .factor({col}, {col, kNoDim}, shape[col], kind)
      .factor({kNoDim}, {kNoDim, row}, graph.result_type(node, 1).shape[row], kind)
      .build();
}

OpShardingRule householder_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const int row = static_cast<int>(shape.size()) - 2, col = row + 1;
  const auto kind = FactorKind::NeedReplication;
  RuleBuilder builder(graph, node);
  add_batch_dims(builder, shape);
  return builder.factor({row, kNoDim}, {row}, shape[row], kind)
      .factor({col, kNoDim}, {col}, shape[col], kind)
      .factor({kNoDim, row}, {kNoDim}, graph.operand_type(node, 1).shape[row], kind)
      .build();
}

// Operand, iota and two initial scalars -> values, indices
OpShardingRule approx_top_k_rule(const Graph& graph, const Node& node) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  RuleBuilder builder(graph, node);
  for (size_t i = 0; i < in.size(); ++i) {
    const int d = static_cast<int>(i);
    if (in[i] == out[i]) {
      builder.same_dim(d, in[i]);
    } else {
      builder.factor({d, d, kNoDim, kNoDim}, {kNoDim, kNoDim}, in[i]);
      builder.factor({kNoDim, kNoDim, kNoDim, kNoDim}, {d, d}, out[i], FactorKind::NeedReplication,
                     true);
    }
  }
  return builder.build();
}

// The state of a random number generator is replicated.
OpShardingRule x64_combine_rule(const Graph& graph, const Node& node) {
  bool is_state = false;
  graph.walk([&](NodeId id) {
    const Node& user = graph.node(id);
    is_state |= user.name() == "stablehlo.rng_bit_generator" &&
                std::ranges::find(user.operands, node.results[0]) != user.operands.end();
  });
  if (!is_state || graph.result_type(node).rank() == 0) return pointwise_rule(graph, node);
  return RuleBuilder(graph, node)
      .same_dim(0, graph.result_type(node).shape[0], FactorKind::NeedReplication, true)
      .build();
}

// What the call itself says comes after what is known of the target: a wrong word there would split
// a kernel that can't be split.
OpShardingRule custom_call_rule(const Graph& graph, const Node& node) {
  const std::string_view target = target_of(node);
  const size_t operands = node.operands.size(), results = node.results.size();
  if (is_pointwise_call(target)) return pointwise_rule(graph, node);
  if (target == "Eigh" && operands == 1 && results == 2) return eigh_rule(graph, node);
  if (is_any_of(target, {"Qr", "QrDecompositionBlock"}) && operands == 1 && results == 2)
    return qr_rule(graph, node);
  if (target == "ProductOfElementaryHouseholderReflectors" && operands == 2)
    return householder_rule(graph, node);
  if (target == "mhlo.topk" && operands == 1 && results == 2)
    return pointwise_rule_with_mismatch(graph, node, FactorKind::NeedReplication, true);
  if (is_any_of(target, {"ApproxTopK", "PartialReduce"}) && operands == 4 && results == 2)
    return approx_top_k_rule(graph, node);
  if (target == "X64Combine" && operands == 2) return x64_combine_rule(graph, node);
  if (OpShardingRule registered = registered_rule(graph, node); !registered.empty())
    return registered;
  const Attribute* given = node.attrs.find("sdy.sharding_rule");
  const ShardingRuleAttr* rule = given ? given->as<ShardingRuleAttr>() : nullptr;
  return rule ? *rule->rule : OpShardingRule();
}

bool has_factor(const DimFactors& dim, FactorIndex factor) {
  return std::ranges::find(dim, factor) != dim.end();
}

// A kernel computes all of its result from its operands, so a factor that no operand has cannot be
// split. JAX says ([i, j], [k, l])->([m, n]) of a call whose every factor is whole.
PropagationClass class_of_custom_call(const Graph&, const Node& node) {
  const Attribute* attr = node.attrs.find("call_target_name");
  const auto* target = attr ? attr->as<StringAttr>() : nullptr;
  const bool moves = target && (target->value == "MoveToDevice" || target->value == "MoveToHost");
  return moves ? PropagationClass::PassThrough : PropagationClass::Other;
}

bool custom_call_shardable(const Graph& graph, const Node& node, const OpShardingRule& rule,
                           FactorIndex factor) {
  const FactorKind kind = rule.factors[factor].kind;
  if (kind != FactorKind::PassThrough && kind != FactorKind::Reduction) return false;
  bool in_operand = false;
  for (const TensorFactors& tensor : rule.operands)
    for (const DimFactors& dim : tensor) in_operand |= has_factor(dim, factor);
  if (!in_operand) return false;
  if (!is_linalg_call(target_of(node))) return true;
  // Matrices are split only by the dimensions in front of them.
  for (size_t t = 0; t < rule.num_tensors(); ++t)
    for (size_t d = 0; d < rule.tensor(t).size(); ++d)
      if (has_factor(rule.tensor(t)[d], factor) && !is_linalg_batch_dim(graph, node, t, d))
        return false;
  return true;
}

PartialTransfer custom_call_partial(const Graph& graph, const Node& node) {
  if (is_identity_call(target_of(node))) return view_partial(graph, node);
  return registered_partial(graph, node);
}

OpCost custom_call_cost(const Graph& graph, const Node& node) {
  const RegisteredOpPtr registered = registered_op_of(node);
  return registered && registered->cost ? registered->cost(graph, node) : default_cost(graph, node);
}

// ---- kernels, by target

const AttrDict* dict_attr(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  const DictAttr* dict = attribute ? attribute->as<DictAttr>() : nullptr;
  return dict ? &dict->dict : nullptr;
}

std::vector<Array> eval_approx_top_k(EvalContext& context, const Node& node,
                                     std::span<const Array> operands) {
  const Shape& in = operands[0].shape();
  const Shape& out = context.graph().result_type(node).shape;
  const AttrDict* config = dict_attr(node, "mhlo.backend_config");
  int64_t dim = config ? config->get_int("reduction_dim", -1) : -1;
  if (dim < 0) dim += static_cast<int64_t>(in.size());
  require(dim >= 0 && dim < static_cast<int64_t>(in.size()), node,
          "reduction_dim {} is outside of the operand", dim);
  std::vector<Array> results;
  if (const Function* comparator = top_k_comparator(context.graph(), node)) {
    results = sort_by_comparator(context, comparator->body, operands.subspan(0, 2), dim);
  } else {
    const Array keys = sort_keys(operands[0], {.descending = true});
    results = sort_by_keys(operands.subspan(0, 2), {&keys, 1}, dim);
  }
  Shape size = in;
  size[dim] = out[dim];
  for (Array& result : results) result = result.slice(Shape(in.size(), 0), size);
  return results;
}

std::vector<Array> eval_mhlo_top_k(const Graph& graph, const Node& node, const Array& operand) {
  const int64_t k = graph.result_type(node).shape.back();
  const AttrDict* config = dict_attr(node, "mhlo.attributes");
  if (!config || config->get_bool("largest", true)) return top_k(operand, k);
  const Array keys = sort_keys(operand, {});
  Array indices(DType::I32, operand.shape());
  const int64_t n = operand.shape().back();
  for (int64_t i = 0; i < indices.num_elements(); ++i)
    indices.data<int32_t>()[i] = static_cast<int32_t>(i % n);
  const std::vector<Array> both{operand, indices};
  std::vector<Array> results =
      sort_by_keys(both, {&keys, 1}, static_cast<int64_t>(operand.rank()) - 1);
  Shape size = operand.shape();
  size.back() = k;
  for (Array& result : results) result = result.slice(Shape(size.size(), 0), size);
  return results;
}

// 64-bit numbers as pairs of 32-bit ones, low half first.
Array high_half_shift(const Shape& shape) {
  return splat(Array::scalar<uint64_t>(DType::U64, 32), shape);
}

std::vector<Array> eval_custom_call(EvalContext& context, const Node& node,
                                    std::span<const Array> operands) {
  const std::string_view target = target_of(node);
  check_call_operands(context.graph(), node, operands);
  if (is_check_call(target)) return eval_check_call(target, operands);
  if (is_identity_call(target)) return {operands.begin(), operands.end()};
  if (target == "shape_assertion") {
    check_shape_assertion(node, operands);
    return {};
  }
  if (is_linalg_call(target)) return eval_linalg_call(context.graph(), node, target, operands);
  if (target == "mhlo.erf") return {unary(UnaryOp::Erf, operands[0])};
  if (target == "mhlo.topk") return eval_mhlo_top_k(context.graph(), node, operands[0]);
  if (is_any_of(target, {"ApproxTopK", "PartialReduce"}) && operands.size() == 4)
    return eval_approx_top_k(context, node, operands);
  const DType result = node.results.empty() ? DType::U64 : context.graph().result_type(node).dtype;
  if (target == "X64SplitLow") return {convert(operands[0], result)};
  if (target == "X64SplitHigh") {
    const Array bits = convert(operands[0], DType::U64);
    return {
        convert(binary(BinaryOp::ShiftRightLogical, bits, high_half_shift(bits.shape())), result)};
  }
  if (target == "X64Combine") {
    const Array low = convert(operands[0], DType::U64), high = convert(operands[1], DType::U64);
    const Array shifted = binary(BinaryOp::ShiftLeft, high, high_half_shift(high.shape()));
    return {convert(binary(BinaryOp::Or, low, shifted), result)};
  }
  if (const RegisteredOpPtr registered = registered_op_of(node); registered && registered->kernel)
    return eval_registered(context.graph(), node, *registered, operands);
  if (target.find("python") != std::string_view::npos &&
      target.find("callback") != std::string_view::npos)
    fail(node,
         "@{} calls a Python function of the process that traced the module (jax.pure_callback, "
         "io_callback, jax.debug.print, jax.debug.callback), and there is none here; trace without "
         "it, and return the values that it needs",
         target);
  fail(node, "custom call @{} has no CPU kernel; register_op makes one known", target);
}

// ---- composite: the function that its decomposition names

std::vector<Array> eval_composite(EvalContext& context, const Node& node,
                                  std::span<const Array> operands) {
  return context.call(node.attrs.get_string("decomposition"), operands);
}

// Partitioning goes into the body; this is what propagation goes by.
OpShardingRule composite_rule(const Graph& graph, const Node& node) {
  if (OpShardingRule registered = registered_rule(graph, node); !registered.empty())
    return registered;
  const Function* function = graph.find_function(node.attrs.get_string("decomposition"));
  if (!function || !function->body.valid()) return {};
  return derive_rule(graph, function->body);
}

// A namespace and names in it, separated by dots: "my_namespace.my_op".
bool is_composite_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (name.empty() || !is_letter(name[0]) || name.back() == '.') return false;
  bool dotted = false;
  for (size_t i = 1; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '.' && name[i - 1] == '.') return false;
    dotted |= c == '.';
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '_' && c != '.' && !(dotted && c == '$'))
      return false;
  }
  return dotted;
}

void verify_composite(const Graph& graph, const Node& node) {
  if (node.attrs.has("name"))
    require(is_composite_name(node.attrs.get_string("name")), node,
            "the name \"{}\" is not one such as \"my_namespace.my_op\"",
            node.attrs.get_string("name"));
  const std::string_view name = node.attrs.get_string("decomposition");
  const Function* function = graph.find_function(name);
  require(function != nullptr, node, "decomposition @{} is not a function of the module", name);
  require(function->arg_types.size() == node.operands.size() &&
              function->result_types.size() == node.results.size(),
          node, "decomposition @{} has {} arguments and {} results, the op {} and {}", name,
          function->arg_types.size(), function->result_types.size(), node.operands.size(),
          node.results.size());
  for (size_t i = 0; i < node.operands.size(); ++i)
    require(compatible(function->arg_types[i], graph.operand_type(node, i)), node,
            "decomposition @{} takes {} as argument {}, {} is given", name,
            to_string(function->arg_types[i]), i, to_string(graph.operand_type(node, i)));
  for (size_t i = 0; i < node.results.size(); ++i)
    require(compatible(function->result_types[i], graph.result_type(node, i)), node,
            "decomposition @{} returns {} as result {}, and {} is declared", name,
            to_string(function->result_types[i]), i, to_string(graph.result_type(node, i)));
}

}  // namespace

void register_custom_call_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.custom_call",
                .infer = infer_declared,
                .verify = verify_custom_call,
                .rule = custom_call_rule,
                .partial = custom_call_partial,
                .cost = custom_call_cost,
                .eval = eval_custom_call,
                .shardable = custom_call_shardable,
                .propagation_class = class_of_custom_call});
  registry.add({.name = "stablehlo.composite",
                .traits = kCall,
                .flow = Flow::Call,
                .callee_attr = "decomposition",
                .infer = infer_declared,
                .verify = verify_composite,
                .rule = composite_rule,
                .eval = eval_composite});
}

}  // namespace cleave
