#pragma once

#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"
#include "cleave/graph/rule_builder.h"

namespace cleave {

// Builds a rule from what is known to be right, one factor after another, each for whole
// dimensions. A factor that needs a dimension that has one already is left out: earlier ones win.
// Dimensions without a factor at the end must be whole when the op runs. `cleave discover OP --emit
// cleave` writes such code:
//
//   RuleSketch rule(graph, node);
//   for (int d = 0; d < rank; ++d)
//     if (d != dim) rule.factor({d, d}, {d});   // batch dimension
//   return rule.build();
class RuleSketch {
 public:
  RuleSketch(const Graph& graph, const Node& node);
  RuleSketch(std::vector<Shape> operands, std::vector<Shape> results);

  // One entry per operand and per result: the dimension, or kNoDim. Dimensions that a tensor does
  // not have leave the factor out.
  RuleSketch& factor(const std::vector<int>& operand_dims, const std::vector<int>& result_dims,
                     FactorKind kind = FactorKind::PassThrough, ReduceOp reduce = ReduceOp::Sum);
  OpShardingRule build();

 private:
  void start();

  std::vector<Shape> operands_, results_;
  OpShardingRule rule_;
};

}  // namespace cleave
