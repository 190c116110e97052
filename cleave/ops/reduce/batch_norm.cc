#include "cleave/kernels/batch_norm.h"

#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/rule_util.h"

namespace cleave {
namespace {

int64_t feature_of(const Node& node) { return node.attrs.get_int("feature_index"); }

// The first operand, whose feature dimension the vectors among the operands must match.
const Type& checked_operand(const Graph& graph, const Node& node, size_t count,
                            std::initializer_list<size_t> vectors) {
  require_operands(node, count);
  const Type& x = tensor_operand(graph, node, 0);
  const int64_t feature = feature_of(node);
  require(feature >= 0 && feature < static_cast<int64_t>(x.rank()), node,
          "feature_index {} is out of range for {}", feature, to_string(x));
  for (size_t i : vectors) {
    const Type& type = tensor_operand(graph, node, i);
    require(
        type.rank() == 1 && compatible(type.shape[0], x.shape[feature]) && type.dtype == x.dtype,
        node, "operand {} must have one {} for each feature of {}, got {}", i, name(x.dtype),
        to_string(x), to_string(type));
  }
  return x;
}

Type features_type(const Type& x, const Node& node) {
  return Type::tensor(x.dtype, {x.shape[feature_of(node)]});
}

std::vector<Type> infer_inference(const Graph& graph, const Node& node) {
  return {checked_operand(graph, node, 5, {1, 2, 3, 4})};
}
std::vector<Type> infer_training(const Graph& graph, const Node& node) {
  const Type& x = checked_operand(graph, node, 3, {1, 2});
  return {x, features_type(x, node), features_type(x, node)};
}
std::vector<Type> infer_grad(const Graph& graph, const Node& node) {
  const Type& x = checked_operand(graph, node, 5, {1, 2, 3});
  require(compatible(x, tensor_operand(graph, node, 4)), node,
          "grad_output must have the operand's type, got {}", operand_types_text(graph, node));
  return {x, features_type(x, node), features_type(x, node)};
}

// Features correspond everywhere; the other dimensions are those of the arrays of full rank.
OpShardingRule feature_rule(const Graph& graph, const Node& node, FactorKind others) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const int64_t feature = feature_of(node);
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_feature = static_cast<int64_t>(d) == feature;
    auto dims = [&](const std::vector<ValueId>& values) {
      std::vector<int> result;
      for (ValueId value : values)
        result.push_back(graph.type(value).rank() == shape.size() && shape.size() > 1
                             ? static_cast<int>(d)
                         : is_feature ? 0
                                      : kNoDim);
      return result;
    };
    builder.factor(dims(node.operands), dims(node.results), shape[d],
                   is_feature ? FactorKind::PassThrough : others);
  }
  return builder.build();
}

OpShardingRule inference_rule(const Graph& graph, const Node& node) {
  return feature_rule(graph, node, FactorKind::PassThrough);
}
// Mean and variance need every element of a feature.
OpShardingRule statistics_rule(const Graph& graph, const Node& node) {
  return feature_rule(graph, node, FactorKind::NeedReplication);
}

// scale * (x - mean) / deviation + offset: linear in x, offset and mean together, and in scale and
// offset.
PartialTransfer inference_partial(const Graph&, const Node&) {
  return {{ReduceOp::Sum, {true, false, true, true, false}, ReduceOp::Sum},
          {ReduceOp::Sum, {false, true, true, false, false}, ReduceOp::Sum},
          {ReduceOp::Avg, {true, false, false, false, false}, ReduceOp::Avg}};
}
// All gradients are linear in the incoming one.
PartialTransfer grad_partial(const Graph&, const Node&) {
  return {{ReduceOp::Sum, {false, false, false, false, true}, ReduceOp::Sum},
          {ReduceOp::Avg, {false, false, false, false, true}, ReduceOp::Avg}};
}

OpCost norm_cost(const Graph& graph, const Node& node, double flops_per_element) {
  OpCost cost{.kernel = KernelClass::Norm};
  cost.flops =
      flops_per_element * static_cast<double>(num_elements(graph.operand_type(node, 0).shape));
  for (ValueId id : node.operands)
    cost.bytes_read += static_cast<double>(graph.type(id).byte_count());
  for (ValueId id : node.results)
    cost.bytes_written += static_cast<double>(graph.type(id).byte_count());
  return cost;
}
OpCost inference_cost(const Graph& graph, const Node& node) { return norm_cost(graph, node, 4); }
OpCost training_cost(const Graph& graph, const Node& node) { return norm_cost(graph, node, 8); }
OpCost grad_cost(const Graph& graph, const Node& node) { return norm_cost(graph, node, 10); }

std::vector<Array> eval_inference(EvalContext&, const Node& node, std::span<const Array> x) {
  return {
      batch_norm(x[0], x[1], x[2], x[3], x[4], node.attrs.get_float("epsilon"), feature_of(node))};
}
std::vector<Array> eval_training(EvalContext&, const Node& node, std::span<const Array> x) {
  return batch_norm_training(x[0], x[1], x[2], node.attrs.get_float("epsilon"), feature_of(node));
}
std::vector<Array> eval_grad(EvalContext&, const Node& node, std::span<const Array> x) {
  return batch_norm_grad(x[0], x[1], x[2], x[3], x[4], node.attrs.get_float("epsilon"),
                         feature_of(node));
}

}  // namespace

void register_batch_norm_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.batch_norm_inference",
                .traits = kPure,
                .infer = infer_inference,
                .rule = inference_rule,
                .partial = inference_partial,
                .cost = inference_cost,
                .eval = eval_inference});
  registry.add({.name = "stablehlo.batch_norm_training",
                .traits = kPure,
                .infer = infer_training,
                .rule = statistics_rule,
                .cost = training_cost,
                .eval = eval_training});
  registry.add({.name = "stablehlo.batch_norm_grad",
                .traits = kPure,
                .infer = infer_grad,
                .rule = statistics_rule,
                .partial = grad_partial,
                .cost = grad_cost,
                .eval = eval_grad});
}

}  // namespace cleave
