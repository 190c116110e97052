// The rules that explain what was decided, with the smallest conditions.
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "cleave/core/error.h"
#include "cleave/discover/anchored.h"
#include "cleave/discover/conditions.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/justify.h"

namespace cleave {
namespace {

using Kind = PlacePattern::Kind;

// A family of combinations that differ in d alone.
struct Schema {
  std::vector<PlacePattern> operands;
  size_t result = 0;
  PlacePattern placement;
  bool has_shard() const;
  auto operator<=>(const Schema&) const = default;
};

bool Schema::has_shard() const {
  return placement.kind == Kind::ShardOfD ||
         std::any_of(operands.begin(), operands.end(),
                     [](const PlacePattern& p) { return p.kind == Kind::ShardOfD; });
}

struct Instance {
  size_t sample;
  const Decision* decision;
  std::optional<int64_t> d;
  bool explained = false;  // by a rule of another form
};

// d is the first sharded dimension among operands, then the result.
std::optional<int64_t> base_dim(const Combination& combination) {
  for (const Placement& placement : combination.operands)
    if (placement.is_shard()) return placement.dim;
  if (combination.placement.is_shard()) return combination.placement.dim;
  return std::nullopt;
}

PlacePattern pattern_of(const Placement& placement, std::optional<int64_t> d) {
  if (placement.is_partial()) return {Kind::Partial, placement.reduce, 0};
  if (placement.is_shard()) return {Kind::ShardOfD, ReduceOp::Sum, placement.dim - *d};
  return {};
}

Schema schema_of(const Combination& combination) {
  const std::optional<int64_t> d = base_dim(combination);
  Schema schema;
  for (const Placement& placement : combination.operands)
    schema.operands.push_back(pattern_of(placement, d));
  schema.result = combination.result;
  schema.placement = pattern_of(combination.placement, d);
  return schema;
}

PlacePattern at(PlacePattern pattern, int64_t d) {
  if (pattern.kind != Kind::ShardOfD) return pattern;
  return {Kind::Shard, ReduceOp::Sum, pattern.dim + d};
}

using Schemas = std::map<Schema, std::vector<Instance>>;

bool is_valid_somewhere(const Decision& decision) {
  return decision.verdict.valid() || !decision.worlds.empty();
}

// Whether the operands that are partial may be so in every other way too.
bool takes_any_parts(const Schemas& schemas, const Schema& schema) {
  int others = 0;
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod}) {
    Schema other = schema;
    for (PlacePattern& pattern : other.operands)
      if (pattern.kind == Kind::Partial) pattern.reduce = op;
    const auto it = schemas.find(other);
    if (other == schema || it == schemas.end()) continue;
    if (std::ranges::none_of(it->second,
                             [](const Instance& i) { return is_valid_somewhere(*i.decision); }))
      return false;
    ++others;
  }
  return others > 0;
}

// Of a rule whose combination is valid for some numbers of devices and not for others.
bool is_mixed(const Decision& decision) {
  return !decision.verdict.valid() && !decision.worlds.empty();
}

// One point for each call and d; if the number of devices decides, for each of them.
class Sweep {
 public:
  Sweep(const Operator& op, const Discovery& discovery, const Schema& schema,
        const std::vector<Instance>& instances)
      : op_(op), discovery_(discovery), schema_(schema), instances_(instances) {}

  std::vector<SweepPoint> points(bool by_world, std::optional<int64_t> only_d = {}) const {
    std::vector<SweepPoint> points;
    for (const Instance& instance : instances_) {
      if (instance.explained || (only_d && instance.d != only_d)) continue;
      const Decision& decision = *instance.decision;
      if (decision.verdict.kind == VerdictKind::Untestable) continue;
      SweepPoint point = point_of(instance.sample, instance.d);
      point.valid = decision.verdict.valid();
      if (!by_world) {
        points.push_back(std::move(point));
        continue;
      }
      for (const WorldVerdict& world : decision.by_world) {
        if (world.kind == VerdictKind::Untestable && !decision.verdict.valid()) continue;
        point.w = world.w;
        point.valid = decision.verdict.valid() || world.kind == VerdictKind::Tested;
        points.push_back(point);
      }
    }
    add_out_of_range(points, by_world, only_d);
    if (only_d) add_without_result(points, by_world, *only_d);
    return points;
  }

  bool has_one_rank() const {
    const std::vector<SweepPoint> all = points(false);
    return std::all_of(all.begin(), all.end(),
                       [&](const SweepPoint& p) { return p.rank == all.front().rank; });
  }

 private:
  // The tensor whose dimension d is: the first sharded operand, else the result.
  const Shape* base_shape(size_t sample) const {
    const SampleDecisions& decided = discovery_.samples[sample];
    for (size_t i = 0; i < schema_.operands.size(); ++i)
      if (schema_.operands[i].kind == Kind::ShardOfD) return &decided.sample.operands[i].shape;
    return schema_.result < decided.result_shapes.size() ? &decided.result_shapes[schema_.result]
                                                         : nullptr;
  }

  SweepPoint point_of(size_t sample, std::optional<int64_t> d) const {
    SweepPoint point;
    const SampleDecisions& decided = discovery_.samples[sample];
    point.attrs = decided.sample.attrs;
    point.d = d;
    if (!decided.sample.operands.empty()) point.shape = decided.sample.operands[0].shape;
    // A dimension may be counted from the end, of an operand or of a result that has one more.
    size_t rank = decided.sample.operands.empty() ? 0 : decided.sample.operands[0].shape.size();
    for (const Shape& shape : decided.result_shapes) rank = std::max(rank, shape.size());
    count_from_front(point.attrs, op_.dim_attrs, rank);
    const Shape* base = base_shape(sample);
    if (!d || !base) return point;
    point.rank = static_cast<int64_t>(base->size());
    point.size_of_d = (*base)[static_cast<size_t>(*d)];
    return point;
  }

  // S(d) -> S(d-1) does not hold at d = 0, though nothing was tried there: a dimension that a
  // tensor does not have is no dimension to be split.
  void add_out_of_range(std::vector<SweepPoint>& points, bool by_world,
                        std::optional<int64_t> only_d) const {
    if (!schema_.has_shard()) return;
    for (size_t s = 0; s < discovery_.samples.size(); ++s) {
      const Shape* base = base_shape(s);
      for (int64_t d = 0; base && d < static_cast<int64_t>(base->size()); ++d) {
        if (only_d && d != only_d) continue;
        const bool tried =
            std::any_of(instances_.begin(), instances_.end(),
                        [&](const Instance& i) { return i.sample == s && i.d == d; });
        if (tried) continue;
        SweepPoint point = point_of(s, d);
        for (int w : by_world ? discovery_.worlds : std::vector<int>{0}) {
          point.w = w;
          points.push_back(point);
        }
      }
    }
  }

  // A call that has fewer results (parts of a split) says nothing good about the others.
  void add_without_result(std::vector<SweepPoint>& points, bool by_world, int64_t d) const {
    for (size_t s = 0; s < discovery_.samples.size(); ++s) {
      const Shape* base = base_shape(s);
      const bool has_result = schema_.result < discovery_.samples[s].result_shapes.size();
      if (has_result || !base || d >= static_cast<int64_t>(base->size())) continue;
      SweepPoint point = point_of(s, d);
      for (int w : by_world ? discovery_.worlds : std::vector<int>{0}) {
        point.w = w;
        points.push_back(point);
      }
    }
  }

  const Operator& op_;
  const Discovery& discovery_;
  const Schema& schema_;
  const std::vector<Instance>& instances_;
};

bool mentions_attribute(const std::string& condition, const Discovery& discovery) {
  for (const auto& [name, value] : discovery.samples.front().sample.attrs)
    if (mentions_word(condition, name)) return true;
  return false;
}

// "size(d) % w == 0" -> "size(2) % w == 0"
std::string with_number(const std::string& condition, int64_t d) {
  auto is_word = [&](size_t at) {
    return at < condition.size() &&
           (std::isalnum(static_cast<unsigned char>(condition[at])) || condition[at] == '_');
  };
  std::string text;
  for (size_t i = 0; i < condition.size(); ++i) {
    const bool alone = condition[i] == 'd' && !is_word(i + 1) && (i == 0 || !is_word(i - 1));
    text += alone ? std::to_string(d) : std::string(1, condition[i]);
  }
  return text;
}

// The rule of a family that the sizes of shards decide about: "size(d) % w == 0".
enum class Explained : uint8_t { Nothing, Part, All };
Explained add_rule_by_world(const Operator& op, const Sweep& sweep,
                            const std::vector<Instance>& instances, DiscoveredRule rule,
                            Discovery& discovery) {
  rule.kind = VerdictKind::Tested;
  rule.on_world = true;
  rule.tests = 0;
  std::set<int64_t> valid_d;
  for (const Instance& instance : instances) {
    if (instance.explained || !is_valid_somewhere(*instance.decision)) continue;
    rule.tests += instance.decision->verdict.tests;
    if (instance.d) valid_d.insert(*instance.d);
  }
  auto name_d = [&](int64_t d, const std::string& condition) {
    DiscoveredRule fixed = rule;
    for (PlacePattern& pattern : fixed.operands) pattern = at(pattern, d);
    fixed.placement = at(fixed.placement, d);
    fixed.condition = with_number(condition, d);
    fixed.on_world = depends_on_world(condition);
    return fixed;
  };
  const auto condition = smallest_condition(sweep.points(true), op.dim_attrs);
  const bool simple =
      condition && depends_on_world(*condition) && condition->find(" or ") == std::string::npos;
  // Dimensions with conditions of their own are named, as is one that alone is ever right.
  if (!simple || (valid_d.size() == 1 && !mentions_attribute(*condition, discovery))) {
    std::vector<DiscoveredRule> named;
    for (int64_t d : valid_d) {
      const std::vector<SweepPoint> points = sweep.points(true, d);
      auto local = smallest_condition(points, op.dim_attrs);
      if (!local) local = sufficient_condition(points, op.dim_attrs);
      if (local && !mentions_attribute(*local, discovery)) named.push_back(name_d(d, *local));
    }
    if (named.size() == valid_d.size()) {
      std::move(named.begin(), named.end(), std::back_inserter(discovery.rules));
      return Explained::All;
    }
  }
  const bool exact = condition && depends_on_world(*condition);
  // Each dimension for itself, attributes and all, rather than a condition that leaves some out.
  if (!simple) {
    std::vector<DiscoveredRule> named;
    for (int64_t d : valid_d)
      if (const auto local = smallest_condition(sweep.points(true, d), op.dim_attrs))
        named.push_back(name_d(d, *local));
    if (named.size() == valid_d.size()) {
      std::move(named.begin(), named.end(), std::back_inserter(discovery.rules));
      return Explained::All;
    }
  }
  const auto said = exact ? condition : sufficient_condition(sweep.points(true), op.dim_attrs);
  if (!said) return Explained::Nothing;
  rule.condition = *said;
  discovery.rules.push_back(std::move(rule));
  return exact ? Explained::All : Explained::Part;
}

// One rule per schema, or one per value of d if d has to be named.
void add_rules(const Operator& op, const Schemas& schemas, const Schema& schema,
               Discovery& discovery) {
  const std::vector<Instance>& instances = schemas.at(schema);
  const Sweep sweep(op, discovery, schema, instances);
  const bool per_sample = !op.shape_attr.empty() && schema.has_shard();
  DiscoveredRule rule;
  rule.operands = schema.operands;
  rule.result = schema.result;
  rule.placement = schema.placement;
  rule.justification = justify(schema.operands, schema.placement, takes_any_parts(schemas, schema));
  rule.kind = VerdictKind::Proved;
  std::map<int64_t, int> valid_d;
  for (const Instance& instance : instances) {
    const Verdict& verdict = instance.decision->verdict;
    if (instance.explained || !verdict.valid()) continue;
    if (verdict.kind == VerdictKind::Tested) rule.kind = VerdictKind::Tested;
    rule.tests += verdict.tests;
    if (instance.d) ++valid_d[*instance.d];
  }
  auto concrete = [&](int64_t d) {
    DiscoveredRule fixed = rule;
    for (PlacePattern& pattern : fixed.operands) pattern = at(pattern, d);
    fixed.placement = at(fixed.placement, d);
    return fixed;
  };
  auto add_call = [&](const Instance& instance) {
    const Decision& decision = *instance.decision;
    DiscoveredRule fixed = concrete(*instance.d);
    fixed.kind = decision.verdict.valid() ? decision.verdict.kind : VerdictKind::Tested;
    fixed.tests = decision.verdict.tests;
    fixed.condition = "called as (" + to_string(discovery.samples[instance.sample].sample) + ")";
    if (!decision.verdict.valid())
      fixed.condition += fmt::format(" on {} devices", fmt::join(decision.worlds, " or "));
    fixed.on_world = !per_sample && !decision.verdict.valid();
    discovery.rules.push_back(std::move(fixed));
  };
  if (per_sample) {
    for (const Instance& instance : instances)
      if (is_valid_somewhere(*instance.decision)) add_call(instance);
    return;
  }
  const bool mixed = std::any_of(instances.begin(), instances.end(), [](const Instance& i) {
    return !i.explained && is_mixed(*i.decision);
  });
  const Explained by_world =
      mixed ? add_rule_by_world(op, sweep, instances, rule, discovery) : Explained::Part;
  if (by_world == Explained::All) return;
  // What the sizes of shards do not explain is wrong, unless the operator only refused the others.
  if (by_world == Explained::Nothing)
    for (const Instance& instance : instances)
      if (!instance.explained && is_mixed(*instance.decision) &&
          instance.decision->verdict.kind == VerdictKind::Rejected)
        add_call(instance);
  if (std::none_of(instances.begin(), instances.end(),
                   [](const Instance& i) { return !i.explained && i.decision->verdict.valid(); }))
    return;
  const std::optional<std::string> condition =
      smallest_condition(sweep.points(false), op.dim_attrs);
  // A condition on the position alone that one d fulfils is said best by naming that d, as is one
  // that was tried on one rank only: "d != 2" would promise all others.
  const bool positional =
      condition &&
      (valid_d.size() == 1 || (!condition->empty() && !valid_d.empty() && sweep.has_one_rank())) &&
      condition->find("size") == std::string::npos && !mentions_attribute(*condition, discovery);
  if (condition && !positional) {
    rule.condition = *condition;
    discovery.rules.push_back(std::move(rule));
    return;
  }
  for (const auto& [d, count] : valid_d) {
    const std::optional<std::string> local =
        smallest_condition(sweep.points(false, d), op.dim_attrs);
    DiscoveredRule fixed = concrete(d);
    fixed.condition =
        local ? with_number(*local, d) : "the shapes and attributes are among those listed";
    discovery.rules.push_back(std::move(fixed));
  }
}

bool same_operands(const DiscoveredRule& a, const DiscoveredRule& b) {
  return a.operands == b.operands && a.result == b.result && a.condition == b.condition;
}

void mark_implied(std::vector<DiscoveredRule>& rules) {
  for (DiscoveredRule& rule : rules) {
    if (rule.placement.kind != Kind::Partial) continue;
    if (rule.placement.reduce == ReduceOp::Sum || rule.placement.reduce == ReduceOp::Prod) continue;
    for (const DiscoveredRule& other : rules)
      if (other.placement.kind == Kind::Replicate && same_operands(other, rule)) {
        rule.implied = true;
        rule.justification = "a replicated result is also " + to_string(rule.placement);
      }
  }
}

void find_attributes(Discovery& discovery) {
  auto valid_set = [&](const SampleDecisions& sample) {
    std::vector<bool> valid;
    for (const Decision& decision : sample.decisions) {
      valid.push_back(decision.verdict.valid());
      valid.push_back(!decision.worlds.empty());
    }
    return valid;
  };
  std::vector<std::vector<bool>> sets;
  for (const SampleDecisions& sample : discovery.samples) sets.push_back(valid_set(sample));
  for (size_t i = 0; i < discovery.samples.size(); ++i)
    for (size_t j = i + 1; j < discovery.samples.size(); ++j) {
      const Sample &a = discovery.samples[i].sample, &b = discovery.samples[j].sample;
      bool same_shapes = a.operands.size() == b.operands.size();
      for (size_t k = 0; same_shapes && k < a.operands.size(); ++k)
        same_shapes = a.operands[k].shape == b.operands[k].shape;
      if (!same_shapes || sets[i] == sets[j]) continue;
      std::vector<std::string> differing;
      for (const auto& [name, value] : a.attrs)
        if (!b.attrs.contains(name) || b.attrs.at(name) != value) differing.push_back(name);
      if (differing.size() == 1) discovery.attributes.push_back(differing.front());
    }
  std::sort(discovery.attributes.begin(), discovery.attributes.end());
  discovery.attributes.erase(std::unique(discovery.attributes.begin(), discovery.attributes.end()),
                             discovery.attributes.end());
}

// Families that a reader would ask about: one operand is not replicated, or all have the same
// placement.
bool is_tempting(const Schema& schema) {
  int placed = 0;
  for (const PlacePattern& pattern : schema.operands) placed += pattern.kind != Kind::Replicate;
  if (placed == 0) return schema.placement.kind != Kind::ShardOfD;
  if (schema.placement.kind == Kind::ShardOfD && std::abs(schema.placement.dim) > 1) return false;
  if (placed == 1) return true;
  return std::all_of(schema.operands.begin(), schema.operands.end(),
                     [&](const PlacePattern& p) { return p == schema.operands.front(); });
}

// The member of a family with a rule that shows why the rule has a condition.
RefutedRule exception_of(const Discovery& discovery, const Schema& schema,
                         const Instance& instance) {
  const Verdict& verdict = instance.decision->verdict;
  RefutedRule rule{schema.operands,
                   schema.result,
                   schema.placement,
                   verdict.kind,
                   verdict.reason,
                   verdict.witness,
                   true,
                   {}};
  if (instance.d) {
    for (PlacePattern& pattern : rule.operands) pattern = at(pattern, *instance.d);
    rule.placement = at(rule.placement, *instance.d);
  }
  rule.with = to_string(discovery.samples[instance.sample].sample.attrs);
  return rule;
}

// The terms of a condition without alternatives; nothing if there are some.
std::optional<std::set<std::string>> terms_of(const std::string& condition) {
  std::set<std::string> terms;
  if (condition.find(" or ") != std::string::npos || condition.starts_with("called as"))
    return std::nullopt;
  constexpr std::string_view kAnd = " and ";
  for (size_t begin = 0; begin < condition.size();) {
    const size_t end = std::min(condition.find(kAnd, begin), condition.size());
    terms.insert(condition.substr(begin, end - begin));
    begin = end + kAnd.size();
  }
  return terms;
}

// Whether a rule about any d says it of the numbers that another one names.
bool has_instance(const DiscoveredRule& any, const DiscoveredRule& named) {
  for (int64_t d = 0; d < 8; ++d) {
    bool same = at(any.placement, d) == named.placement;
    for (size_t i = 0; i < any.operands.size(); ++i)
      same = same && at(any.operands[i], d) == named.operands[i];
    if (same) return true;
  }
  return false;
}

// Rules of a family.
struct Explanation {
  const Schema* schema;
  std::vector<DiscoveredRule> rules;
};

// Whether a rule names a dimension by a number where tensors have several ranks, or no condition
// was found for it.
bool is_clumsy(const DiscoveredRule& rule, const Discovery& discovery) {
  if (rule.condition.starts_with("the shapes")) return true;
  if (rule.condition.starts_with("called as") || mentions_attribute(rule.condition, discovery))
    return false;
  for (size_t i = 0; i < rule.operands.size(); ++i) {
    if (rule.operands[i].kind != Kind::Shard) continue;
    const size_t rank = discovery.samples.front().sample.operands[i].shape.size();
    for (const SampleDecisions& sample : discovery.samples)
      if (sample.sample.operands[i].shape.size() != rank) return true;
  }
  return false;
}

// Says S(dim) or S(-1) if rules with numbers are clumsy, and what is left with those rules again.
std::vector<DiscoveredRule> name_dimensions(const Operator& op, Schemas& schemas,
                                            std::vector<Explanation>& explanations,
                                            Discovery& discovery) {
  std::vector<const Decision*> wanted;
  for (const Explanation& each : explanations) {
    auto clumsy = [&](const DiscoveredRule& rule) { return is_clumsy(rule, discovery); };
    if (std::ranges::none_of(each.rules, clumsy)) continue;
    for (const Instance& instance : schemas.at(*each.schema))
      if (is_valid_somewhere(*instance.decision)) wanted.push_back(instance.decision);
  }
  std::vector<DiscoveredRule> named;
  std::set<const Decision*> explained;
  for (AnchoredRule& found : anchored_rules(op, discovery, wanted)) {
    explained.insert(found.explained.begin(), found.explained.end());
    named.push_back(std::move(found.rule));
  }
  for (Explanation& each : explanations) {
    bool changed = false;
    for (Instance& instance : schemas.at(*each.schema)) {
      instance.explained = explained.contains(instance.decision);
      changed |= instance.explained;
    }
    if (!changed) continue;
    discovery.rules.clear();
    add_rules(op, schemas, *each.schema, discovery);
    each.rules = std::move(discovery.rules);
  }
  return named;
}

void drop_covered(std::vector<DiscoveredRule>& rules) {
  for (size_t i = rules.size(); i-- > 0;) {
    const bool covered = [&] {
      for (size_t k = 0; k < rules.size(); ++k)
        if (k != i && covers(rules[k], rules[i])) return true;
      return false;
    }();
    if (covered) rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace

bool covers(const DiscoveredRule& wide, const DiscoveredRule& narrow) {
  if (wide.result != narrow.result || wide.operands.size() != narrow.operands.size()) return false;
  const bool same = wide.operands == narrow.operands && wide.placement == narrow.placement;
  if (wide.condition.empty()) return same || has_instance(wide, narrow);
  if (!same) return false;
  if (wide.condition == narrow.condition) return true;
  const auto few = terms_of(wide.condition), many = terms_of(narrow.condition);
  return few && many && std::includes(many->begin(), many->end(), few->begin(), few->end());
}

void explain_by_rules(const Operator& op, Discovery& discovery, bool every_family) {
  Schemas schemas;
  for (size_t s = 0; s < discovery.samples.size(); ++s)
    for (const Decision& decision : discovery.samples[s].decisions)
      schemas[schema_of(decision.combination)].push_back(
          {s, &decision, base_dim(decision.combination)});
  std::vector<Explanation> explanations;
  for (const auto& [schema, instances] : schemas) {
    const Instance* refuted = nullptr;
    bool any_valid = false, all_untestable = true, explained = false;
    for (const Instance& instance : instances) {
      const Verdict& verdict = instance.decision->verdict;
      any_valid |= is_valid_somewhere(*instance.decision);
      all_untestable &= verdict.kind == VerdictKind::Untestable;
      const bool better = !refuted || (refuted->decision->verdict.kind == VerdictKind::Rejected &&
                                       verdict.kind == VerdictKind::Refuted);
      if ((verdict.kind == VerdictKind::Refuted || verdict.kind == VerdictKind::Rejected) && better)
        refuted = &instance;
    }
    if (any_valid) {
      discovery.rules.clear();
      add_rules(op, schemas, schema, discovery);
      explained = !discovery.rules.empty();
      explanations.push_back({&schema, std::move(discovery.rules)});
      if (refuted && explained)
        discovery.refuted.push_back(exception_of(discovery, schema, *refuted));
    }
    if (explained) continue;
    if (all_untestable) {
      discovery.untestable.push_back({schema.operands,
                                      schema.result,
                                      schema.placement,
                                      VerdictKind::Untestable,
                                      instances.front().decision->verdict.reason,
                                      {},
                                      false,
                                      {}});
    } else if (refuted && (every_family || is_tempting(schema))) {
      const Verdict& verdict = refuted->decision->verdict;
      discovery.refuted.push_back({schema.operands,
                                   schema.result,
                                   schema.placement,
                                   verdict.kind,
                                   verdict.reason,
                                   verdict.witness,
                                   false,
                                   {}});
    }
  }
  std::vector<DiscoveredRule> rules = name_dimensions(op, schemas, explanations, discovery);
  for (Explanation& each : explanations) std::ranges::move(each.rules, std::back_inserter(rules));
  discovery.rules = std::move(rules);
  drop_covered(discovery.rules);
  mark_implied(discovery.rules);
  std::stable_sort(discovery.rules.begin(), discovery.rules.end(),
                   [](const DiscoveredRule& a, const DiscoveredRule& b) {
                     return std::make_tuple(a.implied, !a.condition.empty()) <
                            std::make_tuple(b.implied, !b.condition.empty());
                   });
  find_attributes(discovery);
}

}  // namespace cleave
