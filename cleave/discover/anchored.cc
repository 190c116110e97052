// Rules whose dimensions are counted from the end, or named by an attribute.
#include "cleave/discover/anchored.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "cleave/discover/conditions.h"
#include "cleave/discover/justify.h"

namespace cleave {
namespace {

using Kind = PlacePattern::Kind;

constexpr size_t kMostSharded = 4;  // tensors of a rule
constexpr int64_t kMostDims = 3;    // counted from either end

std::string key_of(const Combination& combination) {
  return fmt::format("{}:{}", combination.result, to_string(combination));
}

// Combinations that differ in dimensions alone have the same.
std::string family_of(const Combination& combination) {
  std::string text = std::to_string(combination.result);
  auto add = [&](const Placement& p) { text += p.is_shard() ? " S" : " " + to_string(p); };
  for (const Placement& p : combination.operands) add(p);
  add(combination.placement);
  return text;
}

bool is_valid_somewhere(const Decision& decision) {
  return decision.verdict.valid() || !decision.worlds.empty();
}

PlacePattern pattern_of(const Placement& p) {
  if (p.is_partial()) return {Kind::Partial, p.reduce, 0};
  return {};
}

// Whether an attribute is a dimension, or a list that has it.
bool names_dim(const AttrMap& attrs, const std::string& name, int64_t dim) {
  const auto it = attrs.find(name);
  if (it == attrs.end()) return false;
  if (const auto* one = std::get_if<int64_t>(&it->second)) return *one == dim;
  const auto* list = std::get_if<std::vector<int64_t>>(&it->second);
  return list && std::ranges::count(*list, dim) > 0;
}

// "size(d) % w == 0" -> "size(-1) % w == 0"; nothing if the condition says more than that.
std::optional<std::string> about_shards(const std::string& condition, const PlacePattern& base) {
  const std::string name = base.attr.empty() ? std::to_string(base.dim) : base.attr;
  if (condition == "no shard of d is empty") return fmt::format("no shard of {} is empty", name);
  constexpr std::string_view kSize = "size(d) ";
  if (!condition.starts_with(kSize) || condition.find(" and ") != std::string::npos ||
      condition.find(" or ") != std::string::npos)
    return std::nullopt;
  return fmt::format("size({}) {}", name, condition.substr(kSize.size()));
}

class Search {
 public:
  Search(const Operator& op, const Discovery& discovery) : op_(op), discovery_(discovery) {
    for (const SampleDecisions& sample : discovery.samples) {
      attrs_.push_back(attrs_from_front(sample, op.dim_attrs));
      decisions_.emplace_back();
      for (const Decision& decision : sample.decisions)
        decisions_.back().emplace(key_of(decision.combination), &decision);
    }
  }

  // All rules of the family of a combination.
  std::vector<AnchoredRule> rules(const Combination& like) const {
    std::vector<PlacePattern> patterns;
    std::vector<size_t> open;  // the result comes after the operands
    for (const Placement& p : like.operands) {
      if (p.is_shard()) open.push_back(patterns.size());
      patterns.push_back(pattern_of(p));
    }
    if (like.placement.is_shard()) open.push_back(patterns.size());
    patterns.push_back(pattern_of(like.placement));
    std::vector<AnchoredRule> found;
    if (open.size() <= kMostSharded) fill(like.result, patterns, open, 0, found);
    return found;
  }

 private:
  void fill(size_t result, std::vector<PlacePattern>& patterns, const std::vector<size_t>& open,
            size_t next, std::vector<AnchoredRule>& found) const {
    if (next == open.size()) {
      if (auto rule = rule_of(result, patterns)) found.push_back(std::move(*rule));
      return;
    }
    for (const PlacePattern& anchor : anchors(result, open[next])) {
      patterns[open[next]] = anchor;
      fill(result, patterns, open, next + 1, found);
    }
  }

  bool is_result(size_t tensor) const { return tensor == discovery_.num_operands; }
  size_t rank_of(const SampleDecisions& sample, size_t result, size_t tensor) const {
    return is_result(tensor) ? sample.result_shapes[result].size()
                             : sample.sample.operands[tensor].shape.size();
  }

  std::vector<PlacePattern> anchors(size_t result, size_t tensor) const {
    std::vector<PlacePattern> made;
    for (const std::string& name : op_.dim_attrs)
      if (std::ranges::all_of(attrs_, [&](const AttrMap& attrs) {
            const auto it = attrs.find(name);
            return it != attrs.end() && std::holds_alternative<int64_t>(it->second);
          }))
        made.push_back({Kind::ShardOfAttr, ReduceOp::Sum, 0, name});
    std::set<size_t> ranks;
    for (const SampleDecisions& sample : discovery_.samples)
      if (result < sample.result_shapes.size()) ranks.insert(rank_of(sample, result, tensor));
    const bool has_end = !is_result(tensor) || operand_with_rank_of(discovery_, result);
    for (int64_t k = 1; ranks.size() > 1 && has_end && k <= kMostDims; ++k)
      made.push_back({Kind::ShardFromEnd, ReduceOp::Sum, -k, {}});
    for (int64_t k = 0; k < kMostDims; ++k) made.push_back({Kind::Shard, ReduceOp::Sum, k, {}});
    return made;
  }

  // The combination that the patterns are in a call; nothing if it does not have the dimensions.
  std::optional<Combination> in_sample(size_t s, size_t result,
                                       const std::vector<PlacePattern>& patterns) const {
    Combination made{{}, result, {}};
    for (size_t i = 0; i < patterns.size(); ++i) {
      const auto pattern =
          in_call(patterns[i], attrs_[s], rank_of(discovery_.samples[s], result, i));
      if (!pattern) return std::nullopt;
      const Placement placement =
          pattern->kind == Kind::Partial ? Placement::partial(pattern->reduce)
          : pattern->kind == Kind::Shard ? Placement::shard(static_cast<int>(pattern->dim))
                                         : Placement::replicate();
      if (is_result(i))
        made.placement = placement;
      else
        made.operands.push_back(placement);
    }
    return made;
  }

  std::optional<AnchoredRule> rule_of(size_t result,
                                      const std::vector<PlacePattern>& patterns) const {
    if (std::ranges::none_of(patterns, &PlacePattern::is_anchored)) return std::nullopt;
    const size_t base = static_cast<size_t>(
        std::ranges::find_if(patterns, &PlacePattern::is_shard) - patterns.begin());
    AnchoredRule made;
    made.rule.kind = VerdictKind::Proved;
    std::vector<std::set<int>> dims(patterns.size());
    std::set<std::string> met;  // attributes that were a dimension counted from the end
    std::vector<SweepPoint> points;
    bool always = true;
    for (size_t s = 0; s < discovery_.samples.size(); ++s) {
      // Whether there is a third part of a split depends on the call: no rule for all calls says
      // it.
      if (result >= discovery_.samples[s].result_shapes.size()) return std::nullopt;
      const auto combination = in_sample(s, result, patterns);
      if (!combination) continue;
      const auto it = decisions_[s].find(key_of(*combination));
      if (it == decisions_[s].end()) return std::nullopt;
      const Decision& decision = *it->second;
      const Verdict& verdict = decision.verdict;
      if (verdict.kind == VerdictKind::Untestable) continue;
      if (!is_valid_somewhere(decision) && verdict.kind == VerdictKind::Refuted &&
          decision.by_world.empty())
        return std::nullopt;
      always &= verdict.valid();
      made.rule.tests += verdict.tests;
      if (verdict.kind != VerdictKind::Proved) made.rule.kind = VerdictKind::Tested;
      if (is_valid_somewhere(decision)) made.explained.push_back(&decision);
      for (size_t i = 0; i < patterns.size(); ++i) {
        const Placement& p = is_result(i) ? combination->placement : combination->operands[i];
        if (!p.is_shard() || !is_valid_somewhere(decision)) continue;
        dims[i].insert(p.dim);
        if (patterns[i].kind != Kind::ShardFromEnd) continue;
        for (const auto& name : op_.dim_attrs)
          if (names_dim(attrs_[s], name, p.dim)) met.insert(name);
      }
      add_points(s, base, *combination, decision, result, points);
    }
    for (size_t i = 0; i < patterns.size(); ++i)
      if (patterns[i].is_anchored() && dims[i].size() < 2) return std::nullopt;
    // The last dimension is right for all calls only if some are about the last dimension.
    if (std::ranges::count(patterns, Kind::ShardFromEnd, &PlacePattern::kind) > 0 &&
        std::ranges::any_of(op_.dim_attrs, [&](const std::string& name) {
          return !met.contains(name) && attrs_.front().contains(name);
        }))
      return std::nullopt;
    if (!always) {
      const auto condition = smallest_condition(points, op_.dim_attrs);
      const auto said = condition ? about_shards(*condition, patterns[base]) : std::nullopt;
      if (!said) return std::nullopt;
      made.rule.condition = *said;
      made.rule.on_world = true;
    }
    made.rule.operands.assign(patterns.begin(), patterns.end() - 1);
    made.rule.result = result;
    made.rule.placement = patterns.back();
    made.rule.justification = justify(made.rule.operands, made.rule.placement, false);
    return made;
  }

  void add_points(size_t s, size_t base, const Combination& combination, const Decision& decision,
                  size_t result, std::vector<SweepPoint>& points) const {
    const SampleDecisions& sample = discovery_.samples[s];
    const Placement& p = is_result(base) ? combination.placement : combination.operands[base];
    const Shape& shape =
        is_result(base) ? sample.result_shapes[result] : sample.sample.operands[base].shape;
    SweepPoint point;
    point.d = p.dim;
    point.size_of_d = shape[static_cast<size_t>(p.dim)];
    point.rank = static_cast<int64_t>(shape.size());
    point.shape = shape;
    for (const WorldVerdict& world : decision.by_world) {
      if (world.kind == VerdictKind::Untestable && !decision.verdict.valid()) continue;
      point.w = world.w;
      point.valid = decision.verdict.valid() || world.kind == VerdictKind::Tested;
      points.push_back(point);
    }
  }

  const Operator& op_;
  const Discovery& discovery_;
  std::vector<AttrMap> attrs_;
  std::vector<std::map<std::string, const Decision*>> decisions_;
};

}  // namespace

AttrMap attrs_from_front(const SampleDecisions& sample, const std::vector<std::string>& dim_attrs) {
  AttrMap attrs = sample.sample.attrs;
  size_t rank = sample.sample.operands.empty() ? 0 : sample.sample.operands[0].shape.size();
  for (const Shape& shape : sample.result_shapes) rank = std::max(rank, shape.size());
  count_from_front(attrs, dim_attrs, rank);
  return attrs;
}

std::optional<PlacePattern> in_call(const PlacePattern& pattern, const AttrMap& attrs,
                                    size_t rank) {
  PlacePattern made = pattern;
  if (pattern.kind == Kind::ShardFromEnd) {
    made = {Kind::Shard, ReduceOp::Sum, pattern.dim + static_cast<int64_t>(rank), {}};
  } else if (pattern.kind == Kind::ShardOfAttr) {
    const auto it = attrs.find(pattern.attr);
    const auto* dim = it == attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
    if (!dim) return std::nullopt;
    made = {Kind::Shard, ReduceOp::Sum, *dim, {}};
  }
  if (made.kind == Kind::Shard && (made.dim < 0 || made.dim >= static_cast<int64_t>(rank)))
    return std::nullopt;
  return made;
}

std::optional<RankLike> operand_with_rank_of(const Discovery& discovery, size_t result) {
  for (size_t i = 0; i < discovery.num_operands; ++i) {
    std::set<int64_t> more;
    for (const SampleDecisions& sample : discovery.samples)
      if (result < sample.result_shapes.size())
        more.insert(static_cast<int64_t>(sample.result_shapes[result].size()) -
                    static_cast<int64_t>(sample.sample.operands[i].shape.size()));
    if (more.size() == 1) return RankLike{i, *more.begin()};
  }
  return std::nullopt;
}

std::vector<AnchoredRule> anchored_rules(const Operator& op, const Discovery& discovery,
                                         const std::vector<const Decision*>& wanted) {
  std::vector<AnchoredRule> chosen;
  if (wanted.empty()) return chosen;
  const Search search(op, discovery);
  std::map<std::string, std::vector<const Decision*>> families;
  for (const Decision* decision : wanted)
    families[family_of(decision->combination)].push_back(decision);
  for (const auto& [family, decisions] : families) {
    std::set<const Decision*> left(decisions.begin(), decisions.end());
    const std::vector<AnchoredRule> found = search.rules(decisions.front()->combination);
    for (;;) {
      auto worth = [&](const AnchoredRule& rule) {
        return std::ranges::count_if(rule.explained, [&](auto* d) { return left.contains(d); });
      };
      const auto best = std::ranges::max_element(found, {}, worth);
      if (best == found.end() || worth(*best) < 2) break;
      for (const Decision* decision : best->explained) left.erase(decision);
      chosen.push_back(*best);
    }
  }
  return chosen;
}

}  // namespace cleave
