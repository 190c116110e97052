#include "cleave/discover/discover.h"

#include <fmt/ranges.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "cleave/core/error.h"
#include "cleave/discover/conditions.h"
#include "cleave/discover/transfer.h"

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

// The operand whose dimension d is, and its descriptor.
const TensorDesc* base_operand(const Schema& schema, const Sample& sample) {
  for (size_t i = 0; i < schema.operands.size(); ++i)
    if (schema.operands[i].kind == Kind::ShardOfD) return &sample.operands[i];
  return nullptr;
}

std::string justify(const Schema& schema) {
  int partial = 0, sharded = 0;
  bool mixed = false;
  size_t which = 0;
  ReduceOp op = ReduceOp::Sum;
  for (size_t i = 0; i < schema.operands.size(); ++i) {
    if (schema.operands[i].kind == Kind::Partial) {
      mixed |= partial > 0 && op != schema.operands[i].reduce;
      ++partial;
      which = i;
      op = schema.operands[i].reduce;
    }
    if (schema.operands[i].kind == Kind::ShardOfD) ++sharded;
  }
  const PlacePattern& out = schema.placement;
  const bool sum_like = op == ReduceOp::Sum || op == ReduceOp::Avg;
  if (partial == 0 && sharded == 0)
    return out.kind == Kind::Replicate ? "every device computes the same"
           : out.kind == Kind::Partial ? "equal parts are also the value"
                                       : "a constant along the dimension";
  if (partial == 0 && out.kind == Kind::ShardOfD)
    return out.dim == 0 ? "batch dimension" : "batch dimension, moved by the op";
  if (partial == 0 && out.kind == Kind::Partial)
    return fmt::format("reduction ({}) over the sharded dimension", name(out.reduce));
  if (partial > 0 && out.kind == Kind::Replicate)
    return partial == 1 ? fmt::format("does not depend on operand {}", which)
                        : "does not depend on the partial operands";
  if (mixed) return "does not depend on all of the partial operands";
  if (partial > 0 && out.kind == Kind::Partial) {
    if (sum_like && (out.reduce == ReduceOp::Sum || out.reduce == ReduceOp::Avg))
      return partial == 1 ? fmt::format("linear in operand {}", which)
                          : "additive in the partial operands";
    if (sum_like && out.reduce == ReduceOp::Prod) return "turns sums into products";
    if (op == ReduceOp::Prod)
      return out.reduce == ReduceOp::Sum ? "turns products into sums" : "multiplicative";
    if (op == out.reduce)
      return partial == 1 ? fmt::format("monotone in operand {}", which) : "monotone";
    return fmt::format("antitone in operand {}", which);
  }
  return "holds for every decomposition tested";
}

std::vector<SweepPoint> sweep_points(const Discovery& discovery, const Schema& schema,
                                     const std::vector<Instance>& instances) {
  std::vector<SweepPoint> points;
  for (const Instance& instance : instances) {
    const Verdict& verdict = instance.decision->verdict;
    if (verdict.kind == VerdictKind::Untestable) continue;
    const Sample& sample = discovery.samples[instance.sample].sample;
    SweepPoint point;
    point.attrs = sample.attrs;
    point.d = instance.d;
    if (const TensorDesc* desc = base_operand(schema, sample); desc && instance.d) {
      point.rank = static_cast<int64_t>(desc->shape.size());
      point.size_of_d = desc->shape[*instance.d];
    }
    point.valid = verdict.valid();
    points.push_back(std::move(point));
  }
  return points;
}

bool mentions_attribute(const std::string& condition, const Discovery& discovery) {
  for (const auto& [name, value] : discovery.samples.front().sample.attrs)
    if (condition.find(name) != std::string::npos) return true;
  return false;
}

// One rule per schema, or one per value of d where d has to be named.
void add_rules(const Operator& op, const Schema& schema, const std::vector<Instance>& instances,
               Discovery& discovery) {
  const std::vector<SweepPoint> points = sweep_points(discovery, schema, instances);
  const bool per_sample = !op.shape_attr.empty() && schema.has_shard();
  DiscoveredRule rule{schema.operands, schema.result, schema.placement,    {},
                      justify(schema), false,         VerdictKind::Proved, 0};
  std::map<int64_t, int> valid_d;
  for (const Instance& instance : instances) {
    const Verdict& verdict = instance.decision->verdict;
    if (!verdict.valid()) continue;
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
  if (per_sample) {
    for (const Instance& instance : instances) {
      const Decision& decision = *instance.decision;
      if (!decision.verdict.valid() && decision.worlds.empty()) continue;
      DiscoveredRule fixed = concrete(*instance.d);
      fixed.kind = decision.verdict.valid() ? decision.verdict.kind : VerdictKind::Tested;
      fixed.tests = decision.verdict.tests;
      fixed.condition = "called as (" + to_string(discovery.samples[instance.sample].sample) + ")";
      if (!decision.verdict.valid())
        fixed.condition += fmt::format(" on {} devices", fmt::join(decision.worlds, " or "));
      discovery.rules.push_back(std::move(fixed));
    }
    return;
  }
  const std::optional<std::string> condition = smallest_condition(points, op.dim_attrs);
  // A condition on the position alone that one d fulfils is said best by naming that d.
  const bool positional = condition && valid_d.size() == 1 &&
                          condition->find("size") == std::string::npos &&
                          !mentions_attribute(*condition, discovery);
  if (condition && !positional) {
    rule.condition = *condition;
    discovery.rules.push_back(std::move(rule));
    return;
  }
  for (const auto& [d, count] : valid_d) {
    std::vector<Instance> same_d;
    for (const Instance& instance : instances)
      if (instance.d == d) same_d.push_back(instance);
    const std::vector<SweepPoint> at_d = sweep_points(discovery, schema, same_d);
    const std::optional<std::string> local = smallest_condition(at_d, op.dim_attrs);
    DiscoveredRule fixed = concrete(d);
    fixed.condition = local ? *local : "the shapes and attributes are among those listed";
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
    for (const Decision& decision : sample.decisions) valid.push_back(decision.verdict.valid());
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

std::vector<Array> example_results(const Operator& op, const Sample& sample) {
  NumberStream random(0);
  std::vector<Array> operands;
  for (const TensorDesc& desc : sample.operands)
    operands.push_back(make_input(default_generators().front(), desc, random));
  return op.run(sample.attrs, operands);
}

// A combination that held in every test and also follows, op by op, from the visible definition.
void prove(const Operator& op, const DiscoverOptions& options, SampleDecisions& sample) {
  if (!op.define) return;
  const Graph definition = op.define(sample.sample);
  for (Decision& decision : sample.decisions) {
    if (decision.verdict.kind != VerdictKind::Tested) continue;
    bool follows = true;
    for (int w : options.worlds) {
      const auto results = transfer_through(definition, decision.combination.operands, w);
      follows &=
          results && (*results)[decision.combination.result] == decision.combination.placement;
    }
    if (follows) decision.verdict.kind = VerdictKind::Proved;
  }
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

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

VerdictCounts count_verdicts(const Discovery& discovery) {
  VerdictCounts counts;
  for (const SampleDecisions& sample : discovery.samples)
    for (const Decision& decision : sample.decisions) {
      const VerdictKind kind = decision.verdict.kind;
      (kind == VerdictKind::Proved     ? counts.proved
       : kind == VerdictKind::Tested   ? counts.tested
       : kind == VerdictKind::Refuted  ? counts.refuted
       : kind == VerdictKind::Rejected ? counts.rejected
                                       : counts.untestable) += 1;
    }
  return counts;
}

void explain_by_rules(const Operator& op, Discovery& discovery, bool every_family) {
  std::map<Schema, std::vector<Instance>> schemas;
  for (size_t s = 0; s < discovery.samples.size(); ++s)
    for (const Decision& decision : discovery.samples[s].decisions)
      schemas[schema_of(decision.combination)].push_back(
          {s, &decision, base_dim(decision.combination)});
  for (const auto& [schema, instances] : schemas) {
    const Instance* refuted = nullptr;
    bool any_valid = false, all_untestable = true, explained = false;
    for (const Instance& instance : instances) {
      const Verdict& verdict = instance.decision->verdict;
      any_valid |= verdict.valid() || !instance.decision->worlds.empty();
      all_untestable &= verdict.kind == VerdictKind::Untestable;
      const bool better = !refuted || (refuted->decision->verdict.kind == VerdictKind::Rejected &&
                                       verdict.kind == VerdictKind::Refuted);
      if ((verdict.kind == VerdictKind::Refuted || verdict.kind == VerdictKind::Rejected) && better)
        refuted = &instance;
    }
    if (any_valid) {
      const size_t before = discovery.rules.size();
      add_rules(op, schema, instances, discovery);
      explained = discovery.rules.size() > before;
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
  mark_implied(discovery.rules);
  std::stable_sort(discovery.rules.begin(), discovery.rules.end(),
                   [](const DiscoveredRule& a, const DiscoveredRule& b) {
                     return std::make_tuple(a.implied, !a.condition.empty()) <
                            std::make_tuple(b.implied, !b.condition.empty());
                   });
  find_attributes(discovery);
}

Discovery discover(const Operator& op, const DiscoverOptions& options) {
  if (op.samples.empty())
    throw_user("discover {}: no shapes to try; give some with --shape", op.name);
  const auto begin = std::chrono::steady_clock::now();
  const double processor_begin = processor_seconds();
  Discovery discovery;
  discovery.op = op.name;
  discovery.num_operands = op.samples.front().operands.size();
  discovery.worlds = options.worlds;
  discovery.seed = options.seed;
  for (const InputGenerator& generator : options.generators)
    discovery.generators.push_back(generator.name);
  for (size_t i = 0; i < op.samples.size(); ++i) {
    DiscoverOptions of_sample = options;
    if (options.progress)
      of_sample.progress = [&](const std::string& name, double share) {
        options.progress(name,
                         (static_cast<double>(i) + share) / static_cast<double>(op.samples.size()));
      };
    discovery.samples.push_back({op.samples[i], {}, decide(op, op.samples[i], of_sample)});
    for (const Array& result : example_results(op, op.samples[i]))
      discovery.samples.back().result_shapes.push_back(result.shape());
    prove(op, options, discovery.samples.back());
    discovery.combinations += discovery.samples.back().decisions.size();
    for (const Decision& decision : discovery.samples.back().decisions)
      discovery.num_results = std::max(discovery.num_results, decision.combination.result + 1);
  }
  explain_by_rules(op, discovery, options.every_family);
  for (RefutedRule& rule : discovery.refuted)
    if (rule.witness && options.shrink_witnesses) rule.witness = shrink(op, *rule.witness);
  discovery.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  discovery.processor_seconds = processor_seconds() - processor_begin;
  return discovery;
}

}  // namespace cleave
