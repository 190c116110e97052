#pragma once

#include <set>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

namespace cleave::plan {

// Whether the module has the backward pass of a matmul `x w`, so that data parallelism there costs
// an all_reduce of the gradient of w. It has in two cases:
//   - another matmul takes the same x, contracts the dimensions of it that were rows, keeps those
//     that were contracted, and has as many elements as w; its other operand follows from `x w`, or
//     from constants alone: that is x^T dy, the gradient;
//   - w is an argument, and a result of the function is computed from w elementwise and from
//     something that this matmul has a part in: that is the updated w.
// Three projections of one x are no gradients of each other, since they contract the same dimension
// of it; and `dy w^T` has none, since x does not follow from it.
class BackwardFinder {
 public:
  BackwardFinder(const Graph& graph, RegionId body);

  // `rule` is the rule of the node: operand 0 is x, operand 1 is w.
  bool has_gradient(NodeId node, const OpShardingRule& rule) const;

 private:
  using Values = std::set<ValueId>;
  Values following(ValueId value) const;  // all that is computed from it
  bool is_constant(ValueId value) const;
  bool is_gradient(const Node& forward, const OpShardingRule& rule, const Node& other,
                   const Values& after) const;
  bool is_updated(const Node& forward, const Values& after) const;
  ValueId behind_converts(ValueId value) const;

  const Graph& graph_;
  RegionId body_;
  UseMap uses_;
};

}  // namespace cleave::plan
