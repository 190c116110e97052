#include "cleave/graph/op_rule.h"

#include "cleave/graph/op_def.h"
#include "cleave/graph/rule_builder.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/graph/verify.h"

namespace cleave {
namespace {

using RulePtr = std::shared_ptr<const OpShardingRule>;

RulePtr conservative_rule(const Graph& graph, const Node& node, OpShardingRule rule) {
  if (node.def->conservative) {
    node.def->conservative(graph, node, rule);
  } else {
    for (Factor& factor : rule.factors)
      if (factor.kind == FactorKind::Permutation) factor.blocked = true;
  }
  return std::make_shared<const OpShardingRule>(std::move(rule));
}

bool has_static_shapes(const Graph& graph, const Node& node) {
  auto is_static = [&](const std::vector<ValueId>& values) {
    for (ValueId id : values)
      if (graph.type(id).is_tensor() && !graph.type(id).has_static_shape()) return false;
    return true;
  };
  return is_static(node.operands) && is_static(node.results);
}

}  // namespace

const OpShardingRule* OpRule::to_run(const Node& node) const {
  const bool fits = execution && execution->operands.size() == node.operands.size() &&
                    execution->results.size() == node.results.size();
  return fits ? execution.get() : nullptr;
}

OpRule op_rule(const Graph& graph, const Node& node, bool conservative) {
  OpRule rule;
  if (const Attribute* attr = node.attrs.find(kShardingRuleAttr))
    if (const auto* stated = attr->as<ShardingRuleAttr>()) rule.propagation = stated->rule;
  const bool is_stated = rule.propagation != nullptr;
  if (is_stated && node.attrs.has(kStatedRuleAttr)) {
    rule.execution = rule.propagation;
    return rule;
  }
  const bool is_static = has_static_shapes(graph, node);
  RulePtr own;
  if (node.def->rule && !has_unranked(graph, node) && (is_static || !is_stated))
    own = std::make_shared<const OpShardingRule>(node.def->rule(graph, node));
  if (own && own->empty() && node.def->opaque) own = nullptr;  // nothing is registered for it
  if (is_static) rule.execution = own;
  if (is_stated) return rule;
  if (node.name() == "sdy.sharding_constraint")
    rule.propagation =
        std::make_shared<const OpShardingRule>(identity_rule(graph.type(node.results[0]).shape));
  else if (own && !own->empty())
    rule.propagation = conservative ? conservative_rule(graph, node, *own) : own;
  return rule;
}

const OpRule& OpRules::of(NodeId id) {
  std::optional<OpRule>& rule = rules_[id.index];
  if (!rule) rule = op_rule(graph_, graph_.node(id));
  return *rule;
}

}  // namespace cleave
