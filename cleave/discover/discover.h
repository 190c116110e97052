#pragma once

#include <string>
#include <vector>

#include "cleave/discover/engine.h"

namespace cleave {

// A placement inside a rule: a sharded dimension may be written from a variable d.
//   S(d)  S(d-1)  S(0)  R  P(sum)
struct PlacePattern {
  enum class Kind : uint8_t { Replicate, Partial, Shard, ShardOfD } kind = Kind::Replicate;
  ReduceOp reduce = ReduceOp::Sum;
  int64_t dim = 0;  // Shard: the dimension; ShardOfD: the offset from d
  bool operator==(const PlacePattern&) const = default;
  auto operator<=>(const PlacePattern&) const = default;
};
std::string to_string(const PlacePattern& pattern);

// One rule that explains a set of valid combinations over all samples.
struct DiscoveredRule {
  std::vector<PlacePattern> operands;
  size_t result = 0;
  PlacePattern placement;
  std::string condition;      // "d != dim", empty if it always holds
  bool on_world = false;      // the condition speaks of the number of devices: "size(d) % w == 0"
  std::string justification;  // "batch dimension", "linear in operand 0", ...
  bool implied = false;       // a replicated result is also P(avg), P(max), P(min)
  VerdictKind kind = VerdictKind::Tested;
  int tests = 0;
};
std::string to_string(const DiscoveredRule& rule);  // "S(d), S(d) -> S(d) WHEN d != dim"

// A family of combinations that never holds, with the smallest witness found; or one member of a
// family with a rule, outside of the rule's condition.
struct RefutedRule {
  std::vector<PlacePattern> operands;
  size_t result = 0;
  PlacePattern placement;
  VerdictKind kind = VerdictKind::Refuted;
  std::string reason;
  std::optional<Witness> witness;
  bool exception = false;  // a rule says when the family holds
  std::string with;        // the attributes there: "dim=0"
};
std::string to_string(const RefutedRule& rule);

struct SampleDecisions {
  Sample sample;
  std::vector<Shape> result_shapes;
  std::vector<Decision> decisions;
};

struct Discovery {
  std::string op;
  size_t num_operands = 0;
  size_t num_results = 1;
  std::vector<SampleDecisions> samples;
  std::vector<DiscoveredRule> rules;  // unconditional first
  std::vector<RefutedRule> refuted;
  std::vector<RefutedRule> untestable;
  std::vector<std::string> attributes;  // that the rule set depends on
  std::vector<std::string> dim_attrs;   // that name dimensions, in conditions never negative
  std::vector<std::string> generators;
  std::vector<int> worlds;
  uint64_t seed = 0;
  size_t combinations = 0;  // decided
  double seconds = 0;
  double processor_seconds = 0;  // of all threads
};

// How many combinations have each verdict.
struct VerdictCounts {
  size_t proved = 0, tested = 0, refuted = 0, rejected = 0, untestable = 0;
};
VerdictCounts count_verdicts(const Discovery& discovery);

// Decides every combination over all samples of the operator, explains the valid ones by rules with
// the smallest conditions, and shrinks a witness for each family that fails.
Discovery discover(const Operator& op, const DiscoverOptions& options);

// Throws UserError if two equal calls give different results: no verdict would mean anything.
void require_deterministic(const Operator& op);
// Whether all that the operator does is below rounding, as in nextafter: each result is an operand,
// changed by a few units in the last place. Its results are then compared bit for bit.
bool is_below_rounding(const Operator& op);

// For every decision, the rules that explain the valid ones; part of `discover`, visible for tests.
void explain_by_rules(const Operator& op, Discovery& discovery, bool every_family = false);

// A short table for people, YAML, JSON.
std::string report_table(const Discovery& discovery);
std::string report_yaml(const Discovery& discovery);
std::string report_json(const Discovery& discovery);

}  // namespace cleave
