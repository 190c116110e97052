#include "cleave/ops/rule_util.h"

namespace cleave {

OpShardingRule pointwise_rule(const Graph& graph, const Node& node) {
  if (node.results.empty() || !graph.result_type(node).is_tensor()) return {};
  return RuleBuilder(graph, node).pointwise(graph.result_type(node).shape).build();
}

OpShardingRule pointwise_rule_with_mismatch(const Graph& graph, const Node& node, FactorKind kind,
                                            bool blocked) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < in.size(); ++d) {
    const bool same = in[d] == out[d];
    builder.same_dim(static_cast<int>(d), in[d], same ? FactorKind::PassThrough : kind,
                     !same && blocked);
  }
  return builder.build();
}

OpShardingRule no_rule(const Graph&, const Node&) { return {}; }

void dissolve_factor(OpShardingRule& rule, FactorIndex factor) {
  for (auto* tensors : {&rule.operands, &rule.results})
    for (TensorFactors& tensor : *tensors)
      for (DimFactors& dim : tensor)
        if (dim.size() == 1 && dim[0] == factor) {
          dim[0] = static_cast<FactorIndex>(rule.factors.size());
          rule.factors.push_back({});
        }
}

void drop_unused_factors(OpShardingRule& rule) {
  std::vector<FactorIndex> number(rule.factors.size(), -1);
  std::vector<bool> used(rule.factors.size());
  auto for_each = [&](auto&& visit) {
    for (auto* tensors : {&rule.operands, &rule.results})
      for (TensorFactors& tensor : *tensors)
        for (DimFactors& dim : tensor)
          for (FactorIndex& factor : dim) visit(factor);
  };
  for_each([&](FactorIndex& factor) { used[factor] = true; });
  std::vector<Factor> factors;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    number[i] = static_cast<FactorIndex>(factors.size());
    factors.push_back(rule.factors[i]);
  }
  for_each([&](FactorIndex& factor) { factor = number[factor]; });
  rule.factors = std::move(factors);
}

PartialTransfer rows_all_operands(const Node& node, std::initializer_list<ReduceOp> ops) {
  PartialTransfer rows;
  for (ReduceOp op : ops) rows.push_back({op, std::vector<bool>(node.operands.size(), true), op});
  return rows;
}

PartialTransfer rows_of_operand(const Node& node, size_t i, std::initializer_list<ReduceOp> ops) {
  PartialTransfer rows;
  for (ReduceOp op : ops) {
    PartialRow row{op, std::vector<bool>(node.operands.size(), false), op};
    row.operands[i] = true;
    rows.push_back(std::move(row));
  }
  return rows;
}

void append(PartialTransfer& rows, PartialTransfer more) {
  for (PartialRow& row : more) rows.push_back(std::move(row));
}

PartialTransfer view_partial(const Graph&, const Node& node) {
  return rows_all_operands(node, kAllReduceOps);
}

PartialTransfer view_partial_of_first(const Graph&, const Node& node) {
  return rows_of_operand(node, 0, kAllReduceOps);
}

namespace {

// Sums of integers wrap, and stay linear; their averages are rounded, and do not. Sums of bools are
// Or.
bool has_sum(DType dtype) { return dtype != DType::Bool; }
bool has_average(DType dtype) { return is_float(dtype) || is_complex(dtype); }

}  // namespace

PartialTransfer linear_partial(const Graph& graph, const Node& node) {
  const DType dtype = graph.operand_type(node, 0).dtype;
  if (has_average(dtype)) return rows_all_operands(node, {ReduceOp::Sum, ReduceOp::Avg});
  return has_sum(dtype) ? rows_all_operands(node, {ReduceOp::Sum}) : PartialTransfer{};
}

PartialTransfer bilinear_partial(const Graph& graph, const Node& node) {
  const DType dtype = graph.operand_type(node, 0).dtype;
  PartialTransfer rows;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (has_sum(dtype)) append(rows, rows_of_operand(node, i, {ReduceOp::Sum}));
    if (has_average(dtype)) append(rows, rows_of_operand(node, i, {ReduceOp::Avg}));
  }
  return rows;
}

}  // namespace cleave
