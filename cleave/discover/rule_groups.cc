#include "cleave/discover/rule_groups.h"

#include "cleave/discover/anchored.h"
#include "cleave/discover/conditions.h"
#include "cleave/discover/transfer.h"
#include "cleave/rules/rule_sketch.h"

namespace cleave {

std::vector<RuleGroup> rule_groups(const Discovery& discovery) {
  std::vector<RuleGroup> groups;
  for (const DiscoveredRule& rule : discovery.rules) {
    // What the number of devices decides about no rule can say.
    if (rule.implied || rule.on_world) continue;
    auto it = std::find_if(groups.begin(), groups.end(), [&](const RuleGroup& g) {
      return g.operands == rule.operands && g.condition == rule.condition;
    });
    if (it == groups.end()) {
      groups.push_back({rule.operands, {}, rule.condition, rule.justification});
      it = std::prev(groups.end());
      it->results.resize(discovery.num_results);
    }
    std::optional<PlacePattern>& result = it->results[rule.result];
    if (!result || result->kind == PlacePattern::Kind::Replicate) result = rule.placement;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const RuleGroup& a, const RuleGroup& b) {
    return a.num_sharded() > b.num_sharded();
  });
  return groups;
}

Placement placement_at(const PlacePattern& p, int64_t d) {
  if (p.kind == PlacePattern::Kind::Partial) return Placement::partial(p.reduce);
  if (p.kind == PlacePattern::Kind::Shard) return Placement::shard(static_cast<int>(p.dim));
  if (p.kind == PlacePattern::Kind::ShardOfD) return Placement::shard(static_cast<int>(p.dim + d));
  return Placement::replicate();
}

std::optional<RuleGroup> in_call(RuleGroup group, const AttrMap& attrs,
                                 const std::vector<Shape>& operands,
                                 const std::vector<Shape>& results) {
  auto take = [&](PlacePattern& pattern, const Shape& shape) {
    const auto made = in_call(pattern, attrs, shape.size());
    if (made) pattern = *made;
    return made.has_value();
  };
  for (size_t i = 0; i < group.operands.size(); ++i)
    if (i >= operands.size() || !take(group.operands[i], operands[i])) return std::nullopt;
  for (size_t i = 0; i < group.results.size(); ++i)
    if (group.results[i] && (i >= results.size() || !take(*group.results[i], results[i])))
      return std::nullopt;
  return group;
}

namespace {

// The rule that the general code makes for a call. Where a condition holds is where its combination
// was found to be valid.
SynthesizedRule general_rule_of(const std::vector<RuleGroup>& groups, const SampleDecisions& sample,
                                const std::vector<std::string>& dim_attrs) {
  std::vector<Shape> operands;
  for (const TensorDesc& desc : sample.sample.operands) operands.push_back(desc.shape);
  auto holds = [&](const RuleGroup& group, int64_t d) {
    std::vector<Placement> row;
    for (const PlacePattern& p : group.operands) row.push_back(placement_at(p, d));
    size_t valid = 0;
    for (const Decision& decision : sample.decisions)
      valid += decision.verdict.valid() && decision.combination.operands == row &&
               group.results[decision.combination.result] &&
               decision.combination.placement ==
                   placement_at(*group.results[decision.combination.result], d);
    return valid == group.results.size();
  };
  SynthesizedRule made;
  RuleSketch sketch(operands, sample.result_shapes);
  const AttrMap attrs = attrs_from_front(sample, dim_attrs);
  for (const RuleGroup& each : groups) {
    const auto called = in_call(each, attrs, operands, sample.result_shapes);
    if (!called) continue;
    const RuleGroup& group = *called;
    if (const auto row = group.row(); row && holds(group, 0)) made.partial.push_back(*row);
    if (!group.is_factor()) continue;
    for (int64_t d = 0; d < (group.uses_d() ? 8 : 1); ++d) {
      if (!holds(group, d)) continue;
      auto dim = [&](const PlacePattern& p) {
        return RuleGroup::is_sharded(p) ? placement_at(p, d).dim : kNoDim;
      };
      std::vector<int> from, to;
      for (const PlacePattern& p : group.operands) from.push_back(dim(p));
      for (const auto& p : group.results) to.push_back(dim(*p));
      const bool reduces = group.results[0]->kind == PlacePattern::Kind::Partial;
      sketch.factor(from, to, reduces ? FactorKind::Reduction : FactorKind::PassThrough,
                    reduces ? group.results[0]->reduce : ReduceOp::Sum);
    }
  }
  made.rule = sketch.build();
  return made;
}

}  // namespace

bool has_general_rule(const Discovery& discovery, const std::vector<RuleGroup>& groups) {
  for (const RuleGroup& group : groups) {
    if (!group.is_factor() && !group.row()) continue;
    if (group.condition.starts_with("called as") || group.condition.starts_with("the shapes") ||
        group.condition.find('[') != std::string::npos || mentions_word(group.condition, "body") ||
        mentions_word(group.condition, "result"))
      return false;
    for (const auto& [name, value] : discovery.samples.front().sample.attrs)
      if ((mentions_word(group.condition, name) || group.names(name)) &&
          discovery.op.find('.') != std::string::npos && !name.starts_with("dimension"))
        return false;
  }
  return std::all_of(
      discovery.samples.begin(), discovery.samples.end(), [&](const SampleDecisions& sample) {
        const SynthesizedRule made = general_rule_of(groups, sample, discovery.dim_attrs),
                              best = synthesize(sample);
        const RuleDiff diff = diff_rule(made.rule, made.partial, sample, discovery.worlds);
        return diff.incorrect.empty() &&
               (is_degenerate(sample.sample) || diff.missing.size() <= best.not_expressible.size());
      });
}

}  // namespace cleave
