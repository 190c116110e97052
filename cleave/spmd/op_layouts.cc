#include "cleave/spmd/op_layouts.h"

#include <algorithm>

#include "cleave/graph/op_def.h"
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

bool runs_though_replicated(const Graph& graph, const Node& node, const OpShardingRule& rule,
                            FactorIndex factor) {
  return rule.factors[factor].kind == FactorKind::NeedReplication && node.def->shardable &&
         node.def->shardable(graph, node, rule, factor);
}

std::optional<OpShardingRule> with_reductions(const Graph& graph, const Node& node,
                                              const OpShardingRule& given) {
  if (!node.def->shardable || node.def->needs) return std::nullopt;
  OpShardingRule rule = given;
  for (size_t f = 0; f < given.factors.size(); ++f) {
    const auto factor = static_cast<FactorIndex>(f);
    const bool in_result =
        std::any_of(rule.results.begin(), rule.results.end(),
                    [&](const TensorFactors& result) { return has_factor(result, factor); });
    if (!in_result || !runs_though_replicated(graph, node, rule, factor)) continue;
    const DType dtype = graph.result_type(node).dtype;
    rule.factors[f].kind = FactorKind::Reduction;
    rule.factors[f].reduce = dtype == DType::Bool ? ReduceOp::Or : ReduceOp::Sum;
    Factor own = rule.factors[f];
    own.kind = FactorKind::NeedReplication;
    for (size_t i = 0; i < rule.results.size(); ++i)
      for (size_t d = 0; d < rule.results[i].size(); ++d)
        for (FactorIndex& place : rule.results[i][d])
          if (place == factor) {
            own.size = graph.result_type(node, i).shape[d];
            place = static_cast<FactorIndex>(rule.factors.size());
          }
    rule.factors.push_back(own);
  }
  if (rule.factors.size() == given.factors.size()) return std::nullopt;
  return rule;
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
