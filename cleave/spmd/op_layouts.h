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
