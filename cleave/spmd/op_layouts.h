#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"
#include "cleave/spmd/factor_axes.h"

namespace cleave {

// The layouts of an op's operands and results: the one way from axes per factor to specs, which the
// partitioner and the planner share.
//
//   dot_general "m k, k n -> m n" with m over "x" and k over "y":
//     operands [{"x"}, {"y"}] and [{"y"}, {}]; result [{"x"}, {}] unreduced={"y"}
struct OpLayouts {
  std::vector<ShardingSpec> operands;  // no mesh: not a ranked tensor, as it is
  std::vector<ShardingSpec> results;
};

bool is_ranked_tensor(const Type& type);
// Whole on every device; no mesh if it is not a ranked tensor.
ShardingSpec whole_layout(const MeshPtr& mesh, const Type& type);
OpLayouts whole_layouts(const Graph& graph, const Node& node, const MeshPtr& mesh);

// Pending reductions that an op passes from operands to results (OpDef::partial).
struct CarriedPartials {
  AxisList axes;  // of the results
  ReduceOp out = ReduceOp::Sum;
  std::vector<AxisList> operands;  // by operand
  std::vector<ReduceOp> in;        // by operand: of its axes
};

// Whether an op says that it runs along a factor which its rule, for propagation, calls replicated.
bool runs_though_replicated(const Graph& graph, const Node& node, const OpShardingRule& rule,
                            FactorIndex factor);

// Without OpDef::needs, such an op computes what its part of the operand gives, and the parts are
// summed: the factor is a reduction, and the result has a factor of its own.
//   dynamic_slice 12 -> 4: ([i])->([i]) {i=12} becomes ([i])->([j]) {i=12, j=4} reduction={i}
// Nothing if the rule has no such factor.
std::optional<OpShardingRule> with_reductions(const Graph& graph, const Node& node,
                                              const OpShardingRule& rule);

// What the op makes pending itself: the axes of its reduction factors, in mesh order.
struct OwnPartials {
  AxisList axes;
  std::optional<ReduceOp> reduction;  // one for all factors; nothing if there is none
};
OwnPartials own_partials(const OpShardingRule& rule, const FactorAxes& axes);

// Nothing of a dimension without elements is sharded, whatever the axes say. With `carried`, which
// may be null, axes stay pending that the operands have already.
OpLayouts layouts_for(const Graph& graph, const Node& node, const MeshPtr& mesh,
                      const OpShardingRule& rule, const FactorAxes& axes,
                      const CarriedPartials* carried);

// Both lists in mesh order, without repetition.
AxisList sorted_union(AxisList a, const AxisList& b);

}  // namespace cleave
