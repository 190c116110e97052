#pragma once

#include <map>
#include <string>
#include <vector>

#include "cleave/discover/analysis.h"
#include "cleave/discover/engine.h"

namespace cleave {

// A placement inside a rule: a sharded dimension may be written from a variable d, from the end, or
// as the one that an attribute names.
//   S(d)  S(d-1)  S(0)  S(-1)  S(dim)  R  P(sum)
struct PlacePattern {
  enum class Kind : uint8_t { Replicate, Partial, Shard, ShardOfD, ShardFromEnd, ShardOfAttr };
  Kind kind = Kind::Replicate;
  ReduceOp reduce = ReduceOp::Sum;
  int64_t dim = 0;        // Shard, ShardFromEnd: the dimension; ShardOfD: the offset from d
  std::string attr = {};  // ShardOfAttr: which one
  bool is_shard() const { return kind != Kind::Replicate && kind != Kind::Partial; }
  bool is_anchored() const { return kind == Kind::ShardFromEnd || kind == Kind::ShardOfAttr; }
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
// Whether all that `narrow` says is said by `wide` too: "WHEN d > dim" covers "WHEN d > dim and no
// shard of d is empty".
bool covers(const DiscoveredRule& wide, const DiscoveredRule& narrow);

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

// The name of a generator of numbers, and what it gives.
struct GeneratorText {
  std::string name;
  std::string description;
};

struct Discovery {
  std::string op;
  std::string signature;
  std::vector<std::string> operand_names;
  std::map<std::string, std::string> versions;
  size_t num_operands = 0;
  size_t num_results = 1;
  std::vector<SampleDecisions> samples;
  std::vector<DiscoveredRule> rules;  // unconditional first
  std::vector<RefutedRule> refuted;
  std::vector<RefutedRule> untestable;
  std::vector<std::string> attributes;  // that the rule set depends on
  std::vector<std::string> dim_attrs;   // that name dimensions, in conditions never negative
  Analysis analysis;
  std::vector<GeneratorText> generators;              // all that operands were filled with
  std::vector<GeneratorText> adversarial_generators;  // those of them made for this operator
  std::vector<int> worlds;
  uint64_t seed = 0;
  double tolerance = 0;     // relative, of the coarsest dtype of the samples
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

// Two equal calls gave different results: no verdict would mean anything.
class NotDeterministic : public UserError {
 public:
  NotDeterministic(const std::string& op, const std::string& how);
  // "of two equal calls (4x3 f64) element 0 of result 0 is 1, then 2"
  const std::string& how() const { return how_; }

 private:
  std::string how_;
};
// Throws NotDeterministic if they do.
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
// The JSON schema (draft 2020-12) of both.
std::string_view report_schema();
// The JSON with a row for every family that fails, and what a page draws beside:
//
//   matrix      {results, operands: [names], columns: [placements], rows: [{inputs, output, result,
//               verdict, how, condition, justification, witness, tests}]}; a verdict is proved,
//               tested, implied, conditional (`how` is then proved or tested), refuted, rejected or
//               untestable; `witness` is a place in the next list, or -1
//   witnesses   [{text, call, world, operands: [{placement, whole, shards}], result: {index,
//               placement, expected, devices}, element, position, expected, got, note}], where an
//               array is {shape, dtype, values}
//
// The operator runs again on every witness, for the numbers that come out.
std::string report_page(const Operator& op, const Discovery& discovery,
                        bool shrink_witnesses = true);
// What is refuted outside of the rule's condition; null if there is no such row.
const RefutedRule* exception_to(const Discovery& discovery, const DiscoveredRule& rule);

}  // namespace cleave
