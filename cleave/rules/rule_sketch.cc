#include "cleave/rules/rule_sketch.h"

#include "cleave/core/error.h"

namespace cleave {

RuleSketch::RuleSketch(const Graph& graph, const Node& node) {
  for (ValueId id : node.operands) operands_.push_back(graph.type(id).shape);
  for (ValueId id : node.results) results_.push_back(graph.type(id).shape);
  start();
}

RuleSketch::RuleSketch(std::vector<Shape> operands, std::vector<Shape> results)
    : operands_(std::move(operands)), results_(std::move(results)) {
  start();
}

void RuleSketch::start() {
  for (const Shape& shape : operands_) rule_.operands.emplace_back(shape.size());
  for (const Shape& shape : results_) rule_.results.emplace_back(shape.size());
}

RuleSketch& RuleSketch::factor(const std::vector<int>& operand_dims,
                               const std::vector<int>& result_dims, FactorKind kind,
                               ReduceOp reduce) {
  internal_check(operand_dims.size() == operands_.size() && result_dims.size() == results_.size(),
                 "a factor needs one dimension per operand and result");
  int64_t size = 1;
  bool fits = true;
  auto look = [&](const std::vector<TensorFactors>& tensors, const std::vector<Shape>& shapes,
                  const std::vector<int>& dims) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == kNoDim) continue;
      fits = fits && dims[i] >= 0 && static_cast<size_t>(dims[i]) < shapes[i].size() &&
             tensors[i][dims[i]].empty();
      if (fits) size = shapes[i][dims[i]];
    }
  };
  look(rule_.results, results_, result_dims);
  look(rule_.operands, operands_, operand_dims);
  if (!fits) return *this;
  const auto index = static_cast<FactorIndex>(rule_.factors.size());
  rule_.factors.push_back({size, kind, false, reduce});
  auto take = [&](std::vector<TensorFactors>& tensors, const std::vector<int>& dims) {
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] != kNoDim) tensors[i][dims[i]].push_back(index);
  };
  take(rule_.operands, operand_dims);
  take(rule_.results, result_dims);
  return *this;
}

OpShardingRule RuleSketch::build() {
  auto complete = [&](std::vector<TensorFactors>& tensors, const std::vector<Shape>& shapes) {
    for (size_t t = 0; t < tensors.size(); ++t)
      for (size_t d = 0; d < tensors[t].size(); ++d)
        if (tensors[t][d].empty()) {
          tensors[t][d].push_back(static_cast<FactorIndex>(rule_.factors.size()));
          rule_.factors.push_back(
              {shapes[t][d], FactorKind::NeedReplication, false, ReduceOp::Sum});
        }
  };
  complete(rule_.operands, operands_);
  complete(rule_.results, results_);
  return std::move(rule_);
}

}  // namespace cleave
