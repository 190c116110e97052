#include "cleave/graph/op_rule.h"

#include "cleave/graph/op_def.h"
#include "cleave/graph/rule_builder.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/graph/verify.h"

namespace cleave {
namespace {

void make_conservative(const Graph& graph, const Node& node, OpShardingRule& rule) {
  if (node.def->conservative) return node.def->conservative(graph, node, rule);
  for (Factor& factor : rule.factors)
    if (factor.kind == FactorKind::Permutation) factor.blocked = true;
}

}  // namespace

std::shared_ptr<const OpShardingRule> propagation_rule(const Graph& graph, const Node& node,
                                                       bool conservative) {
  if (const Attribute* attr = node.attrs.find(kShardingRuleAttr))
    if (const auto* rule = attr->as<ShardingRuleAttr>()) return rule->rule;
  if (node.name() == "sdy.sharding_constraint")
    return std::make_shared<const OpShardingRule>(identity_rule(graph.type(node.results[0]).shape));
  if (!node.def->rule || has_unranked(graph, node)) return nullptr;
  OpShardingRule rule = node.def->rule(graph, node);
  if (rule.empty()) return nullptr;
  if (conservative) make_conservative(graph, node, rule);
  return std::make_shared<const OpShardingRule>(std::move(rule));
}

std::optional<OpShardingRule> execution_rule(const Graph& graph, const Node& node) {
  // What the text says of an op is for propagation. How an op runs in parts is for the op to say:
  // a custom call takes the text's word, within limits of its own. `cleave.stated_rule` is for
  // those who try whether the text is right.
  if (node.attrs.has("cleave.stated_rule"))
    if (const Attribute* attr = node.attrs.find("sdy.sharding_rule"))
      if (const auto* stated = attr->as<ShardingRuleAttr>()) return *stated->rule;
  if (!node.def->rule) return std::nullopt;
  for (ValueId id : node.operands)
    if (graph.type(id).is_tensor() && !graph.type(id).has_static_shape()) return std::nullopt;
  for (ValueId id : node.results)
    if (graph.type(id).is_tensor() && !graph.type(id).has_static_shape()) return std::nullopt;
  return node.def->rule(graph, node);
}

}  // namespace cleave
