#include "cleave/plan/heuristic_backward.h"

#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/ops/op.h"
#include "cleave/spmd/factor_axes.h"

namespace cleave::plan {
namespace {

bool has_kind(const OpShardingRule& rule, const DimFactors& dim, FactorKind kind) {
  return std::any_of(dim.begin(), dim.end(),
                     [&](FactorIndex f) { return rule.factors[f].kind == kind; });
}

bool has_elements_of(const Type& a, const Type& b) {
  return a.has_static_shape() && b.has_static_shape() &&
         num_elements(a.shape) == num_elements(b.shape);
}

}  // namespace

BackwardFinder::BackwardFinder(const Graph& graph, RegionId body)
    : graph_(graph), body_(body), uses_(graph) {}

ValueId BackwardFinder::behind_converts(ValueId value) const {
  while (true) {
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid() || !is<op::Convert>(graph_.node(producer))) return value;
    value = graph_.node(producer).operands[0];
  }
}

BackwardFinder::Values BackwardFinder::following(ValueId value) const {
  Values after{value};
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    for (const Use& use : uses_.uses(next))
      for (ValueId result : graph_.node(use.node).results)
        if (after.insert(result).second) open.push_back(result);
  }
  return after;
}

bool BackwardFinder::is_constant(ValueId value) const {
  Values seen{value};
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const NodeId producer = graph_.value(open.back()).producer;
    open.pop_back();
    if (!producer.valid()) return false;  // an argument
    for (ValueId operand : graph_.node(producer).operands)
      if (seen.insert(operand).second) open.push_back(operand);
  }
  return true;
}

bool BackwardFinder::has_gradient(NodeId id, const OpShardingRule& rule) const {
  const Node& node = graph_.node(id);
  const Values after = following(node.results[0]);
  const ValueId x = behind_converts(node.operands[0]);
  // Converted values are the same activations.
  std::vector<ValueId> same{x};
  for (size_t i = 0; i < same.size(); ++i)
    for (const Use& use : uses_.uses(same[i]))
      if (is<op::Convert>(graph_.node(use.node))) same.push_back(graph_.node(use.node).results[0]);
  for (ValueId value : same)
    for (const Use& use : uses_.uses(value))
      if (use.node != id && is_gradient(node, rule, graph_.node(use.node), after)) return true;
  return is_updated(node, after);
}

bool BackwardFinder::is_gradient(const Node& forward, const OpShardingRule& rule, const Node& other,
                                 const Values& after) const {
  if (other.operands.size() != 2 || other.results.size() != 1 || !other.regions.empty() ||
      !has_elements_of(graph_.result_type(other), graph_.operand_type(forward, 1)))
    return false;
  const OpRule rules = op_rule(graph_, other);
  const OpShardingRule* back = rules.to_run(other);
  if (!back) return false;
  const ValueId x = behind_converts(forward.operands[0]);
  for (size_t i = 0; i < 2; ++i) {
    if (behind_converts(other.operands[i]) != x) continue;
    const ValueId dy = other.operands[1 - i];
    if (!after.contains(dy) && !is_constant(dy)) continue;
    const TensorFactors &before = rule.operands[0], &after = back->operands[i];
    bool swapped = before.size() == after.size();
    for (size_t d = 0; swapped && d < before.size(); ++d) {
      const bool is_batch = std::any_of(before[d].begin(), before[d].end(), [&](FactorIndex f) {
        return has_factor(rule.operands[1], f) && has_factor(rule.results[0], f);
      });
      const bool was_contracted = has_kind(rule, before[d], FactorKind::Reduction);
      const bool is_contracted = has_kind(*back, after[d], FactorKind::Reduction);
      swapped = is_batch ? !is_contracted : was_contracted != is_contracted;
    }
    if (swapped) return true;
  }
  return false;
}

bool BackwardFinder::is_updated(const Node& forward, const Values& after) const {
  const ValueId w = behind_converts(forward.operands[1]);
  if (graph_.value(w).producer.valid()) return false;  // no argument
  for (ValueId result : graph_.node(graph_.terminator(body_)).operands) {
    if (!(graph_.type(result) == graph_.type(w)) || !after.contains(result)) continue;
    // Back through elementwise ops alone.
    Values seen{result};
    std::vector<ValueId> path{result};
    while (!path.empty()) {
      const ValueId value = path.back();
      path.pop_back();
      if (value == w) return true;
      const NodeId producer = graph_.value(value).producer;
      if (!producer.valid() || !graph_.node(producer).def->has(kElementwise)) continue;
      for (ValueId operand : graph_.node(producer).operands)
        if (seen.insert(operand).second) path.push_back(operand);
    }
  }
  return false;
}

}  // namespace cleave::plan
