#include "cleave/graph/op_rule.h"

#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/graph/rule_builder.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/graph/verify.h"

namespace cleave {
namespace {

// Replaces a factor by a fresh one of size 1 in every dimension that it alone makes up, so that
// nothing propagates along it.
void dissolve_factor(OpShardingRule& rule, FactorIndex factor) {
  auto dissolve = [&](std::vector<TensorFactors>& tensors) {
    for (TensorFactors& tensor : tensors)
      for (DimFactors& dim : tensor)
        if (dim.size() == 1 && dim[0] == factor) {
          dim[0] = static_cast<FactorIndex>(rule.factors.size());
          rule.factors.push_back({});
        }
  };
  dissolve(rule.operands);
  dissolve(rule.results);
}

// Drops the factors that nothing maps to any more.
void compact(OpShardingRule& rule) {
  std::vector<FactorIndex> number(rule.factors.size(), -1);
  std::vector<bool> used(rule.factors.size());
  auto for_each = [&](auto&& visit) {
    for (auto* tensors : {&rule.operands, &rule.results})
      for (TensorFactors& tensor : *tensors)
        for (DimFactors& dim : tensor)
          for (FactorIndex& factor : dim) visit(factor);
  };
  for_each([&](FactorIndex& factor) { used[factor] = true; });
  std::vector<Factor> factors;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    number[i] = static_cast<FactorIndex>(factors.size());
    factors.push_back(rule.factors[i]);
  }
  for_each([&](FactorIndex& factor) { factor = number[factor]; });
  rule.factors = std::move(factors);
}

void make_conservative(const Node& node, OpShardingRule& rule) {
  if (node.name == "stablehlo.concatenate") {
    const auto dim = static_cast<size_t>(node.attrs.get_int("dimension"));
    dissolve_factor(rule, rule.results[0][dim][0]);
    compact(rule);
  } else if (node.name == "stablehlo.convolution") {
    for (auto* tensors : {&rule.operands, &rule.results})
      for (TensorFactors& tensor : *tensors)
        for (DimFactors& dim : tensor) {
          const bool spatial = std::any_of(dim.begin(), dim.end(), [&](FactorIndex factor) {
            return rule.factors[factor].kind == FactorKind::Permutation;
          });
          if (spatial) dim.clear();
        }
    // Window factors stand in the kernel as well; a dimension left without one gets a fresh factor.
    for (TensorFactors& tensor : rule.operands)
      for (DimFactors& dim : tensor) {
        const bool lonely = dim.size() == 1 && [&] {
          for (auto* tensors : {&rule.operands, &rule.results})
            for (TensorFactors& other : *tensors)
              for (DimFactors& d : other)
                if (&d != &dim && std::find(d.begin(), d.end(), dim[0]) != d.end()) return false;
          return true;
        }();
        if (lonely) dim.clear();
      }
    for (auto* tensors : {&rule.operands, &rule.results})
      for (TensorFactors& tensor : *tensors)
        for (DimFactors& dim : tensor)
          if (dim.empty()) {
            dim.push_back(static_cast<FactorIndex>(rule.factors.size()));
            rule.factors.push_back({});
          }
    compact(rule);
  } else {
    // The windows of a select_and_scatter stand in its source alone, as factors of their own.
    const bool windows = node.name == "stablehlo.select_and_scatter";
    for (Factor& factor : rule.factors)
      if (factor.kind == FactorKind::Permutation ||
          (windows && factor.kind == FactorKind::NeedReplication))
        factor.blocked = true;
  }
}

}  // namespace

std::shared_ptr<const OpShardingRule> propagation_rule(const Graph& graph, const Node& node,
                                                       bool conservative) {
  if (const Attribute* attr = node.attrs.find(kShardingRuleAttr))
    if (const auto* rule = attr->as<ShardingRuleAttr>()) return rule->rule;
  if (node.name == "sdy.sharding_constraint")
    return std::make_shared<const OpShardingRule>(identity_rule(graph.type(node.results[0]).shape));
  if (!node.def || !node.def->rule || has_unranked(graph, node)) return nullptr;
  OpShardingRule rule = node.def->rule(graph, node);
  if (rule.empty()) return nullptr;
  if (conservative) make_conservative(node, rule);
  return std::make_shared<const OpShardingRule>(std::move(rule));
}

std::optional<OpShardingRule> execution_rule(const Graph& graph, const Node& node) {
  // What the text says of an op is for propagation. How an op runs in parts is for the op to say:
  // a custom call takes the text's word, within limits of its own. `cleave.stated_rule` is for
  // those who try whether the text is right.
  if (node.attrs.has("cleave.stated_rule"))
    if (const Attribute* attr = node.attrs.find("sdy.sharding_rule"))
      if (const auto* stated = attr->as<ShardingRuleAttr>()) return *stated->rule;
  if (!node.def || !node.def->rule) return std::nullopt;
  for (ValueId id : node.operands)
    if (graph.type(id).is_tensor() && !graph.type(id).has_static_shape()) return std::nullopt;
  for (ValueId id : node.results)
    if (graph.type(id).is_tensor() && !graph.type(id).has_static_shape()) return std::nullopt;
  return node.def->rule(graph, node);
}

}  // namespace cleave
