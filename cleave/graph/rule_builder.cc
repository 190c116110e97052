#include "cleave/graph/rule_builder.h"

#include "cleave/core/error.h"

namespace cleave {

RuleBuilder::RuleBuilder(const Graph& graph, const Node& node) {
  for (ValueId id : node.operands) rule_.operands.emplace_back(graph.type(id).rank());
  for (ValueId id : node.results) rule_.results.emplace_back(graph.type(id).rank());
}

RuleBuilder::RuleBuilder(std::vector<size_t> operand_ranks, std::vector<size_t> result_ranks) {
  for (size_t rank : operand_ranks) rule_.operands.emplace_back(rank);
  for (size_t rank : result_ranks) rule_.results.emplace_back(rank);
}

RuleBuilder& RuleBuilder::factor(std::vector<int> operand_dims, std::vector<int> result_dims,
                                 int64_t size, FactorKind kind, bool blocked, ReduceOp reduce) {
  internal_check(
      operand_dims.size() == rule_.operands.size() && result_dims.size() == rule_.results.size(),
      "a factor needs one dimension per operand and result");
  const auto index = static_cast<FactorIndex>(rule_.factors.size());
  rule_.factors.push_back({size, kind, blocked, reduce});
  auto map = [&](std::vector<TensorFactors>& tensors, const std::vector<int>& dims) {
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] != kNoDim && (dims[i] < 0 || dims[i] >= static_cast<int>(tensors[i].size())))
        throw_user("a sharding rule for dimension {} of a tensor of rank {}", dims[i],
                   tensors[i].size());
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] != kNoDim && (size != 1 || tensors[i][dims[i]].empty()))
        tensors[i][dims[i]].push_back(index);
  };
  map(rule_.operands, operand_dims);
  map(rule_.results, result_dims);
  return *this;
}

RuleBuilder& RuleBuilder::same_dim(int dim, int64_t size, FactorKind kind, bool blocked) {
  auto dims = [&](const std::vector<TensorFactors>& tensors) {
    std::vector<int> result;
    for (const TensorFactors& tensor : tensors) result.push_back(tensor.empty() ? kNoDim : dim);
    return result;
  };
  return factor(dims(rule_.operands), dims(rule_.results), size, kind, blocked);
}

RuleBuilder& RuleBuilder::pointwise(const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d) same_dim(static_cast<int>(d), shape[d]);
  return *this;
}

OpShardingRule RuleBuilder::build() {
  auto complete = [&](std::vector<TensorFactors>& tensors) {
    for (TensorFactors& tensor : tensors)
      for (DimFactors& dim : tensor)
        if (dim.empty()) {
          dim.push_back(static_cast<FactorIndex>(rule_.factors.size()));
          rule_.factors.push_back({});
        }
  };
  complete(rule_.operands);
  complete(rule_.results);
  return std::move(rule_);
}

OpShardingRule identity_rule(const Shape& shape, size_t operands) {
  OpShardingRule rule;
  TensorFactors dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    dims.push_back({static_cast<FactorIndex>(d)});
    rule.factors.push_back({shape[d]});
  }
  rule.operands.assign(operands, dims);
  rule.results.assign(1, dims);
  return rule;
}

}  // namespace cleave
