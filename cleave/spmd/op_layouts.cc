#include "cleave/spmd/op_layouts.h"

#include <algorithm>

#include "cleave/spmd/transfer.h"

namespace cleave {

bool is_ranked_tensor(const Type& type) { return type.is_tensor() && !type.unranked; }

ShardingSpec whole_layout(const MeshPtr& mesh, const Type& type) {
  return is_ranked_tensor(type) ? ShardingSpec::closed_replicated(mesh, type.rank())
                                : ShardingSpec{};
}

OpLayouts whole_layouts(const Graph& graph, const Node& node, const MeshPtr& mesh) {
  OpLayouts layouts;
  for (ValueId id : node.operands) layouts.operands.push_back(whole_layout(mesh, graph.type(id)));
  for (ValueId id : node.results) layouts.results.push_back(whole_layout(mesh, graph.type(id)));
  return layouts;
}

AxisList sorted_union(AxisList a, const AxisList& b) {
  for (const AxisRef& ref : without(b, a)) a.push_back(ref);
  std::sort(a.begin(), a.end());
  merge_neighbours(a);
  return a;
}

OwnPartials own_partials(const OpShardingRule& rule, const FactorAxes& axes) {
  OwnPartials own;
  for (size_t f = 0; f < axes.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::Reduction || axes[f].empty()) continue;
    own.axes = sorted_union(std::move(own.axes), axes[f]);
    own.reduction = rule.factors[f].reduce;
  }
  return own;
}

OpLayouts layouts_for(const Graph& graph, const Node& node, const MeshPtr& mesh,
                      const OpShardingRule& rule, const FactorAxes& axes,
                      const CarriedPartials* carried) {
  OpLayouts layouts;
  auto laid_out = [&](ValueId value, const TensorFactors& factors) {
    const Type& type = graph.type(value);
    ShardingSpec spec = whole_layout(mesh, type);
    if (!spec.mesh) return spec;
    place(axes, factors, spec);
    for (size_t d = 0; d < spec.dims.size(); ++d)
      if (type.shape[d] == 0) spec.dims[d].axes.clear();
    return spec;
  };
  for (size_t i = 0; i < node.operands.size(); ++i) {
    ShardingSpec& spec =
        layouts.operands.emplace_back(laid_out(node.operands[i], rule.operands[i]));
    if (!carried || i >= carried->operands.size() || carried->operands[i].empty()) continue;
    spec.partial = sorted_union({}, carried->operands[i]);
    spec.partial_op = carried->in[i];
  }
  OwnPartials own = own_partials(rule, axes);
  const AxisList partial = carried ? sorted_union(std::move(own.axes), carried->axes) : own.axes;
  const ReduceOp op = own.reduction ? *own.reduction : (carried ? carried->out : ReduceOp::Sum);
  for (size_t i = 0; i < node.results.size(); ++i) {
    ShardingSpec& spec = layouts.results.emplace_back(laid_out(node.results[i], rule.results[i]));
    if (!spec.mesh) continue;
    spec.partial = partial;
    spec.partial_op = op;
  }
  return layouts;
}

}  // namespace cleave
