#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cleave/core/placement.h"
#include "cleave/discover/inputs.h"
#include "cleave/discover/operator.h"
#include "cleave/discover/represent.h"

namespace cleave {

// Operand placements -> the placement of one result, on one mesh axis of w devices.
struct Combination {
  std::vector<Placement> operands;
  size_t result = 0;  // which one
  Placement placement;
  bool operator==(const Combination&) const = default;
};
std::string to_string(const Combination& combination);  // "P(sum), R -> P(sum)"

// What shows that a combination is wrong: every operand as the devices hold it, and the first
// number that differs.
struct Witness {
  Sample sample;
  Combination combination;
  int w = 2;
  std::vector<Array> operands;              // global
  std::vector<std::vector<Array>> devices;  // [operand][device]
  int64_t element = -1;
  double expected = 0;
  double actual = 0;
};
// A reproduction: the call, a line per operand, what comes out. `replay.h` runs it again.
std::string to_string(const std::string& op, const Witness& witness);
std::string short_text(const Witness& witness);  // in one line

enum class VerdictKind : uint8_t {
  Proved,      // follows from the operator's visible definition
  Tested,      // held in `tests` informative tests
  Refuted,     // wrong: there is a witness
  Rejected,    // the operator does not accept the local shapes, or returns another shape
  Untestable,  // no informative test was found
};
std::string_view name(VerdictKind kind);

struct Verdict {
  VerdictKind kind = VerdictKind::Untestable;
  int tests = 0;
  std::string reason;
  std::optional<Witness> witness;
  bool valid() const { return kind == VerdictKind::Proved || kind == VerdictKind::Tested; }
};

struct WorldVerdict {
  int w = 2;
  VerdictKind kind = VerdictKind::Untestable;
};
struct Decision {
  Combination combination;
  Verdict verdict;  // over all numbers of devices: wrong for one is wrong
  // If something is sharded, the number of devices decides the sizes of shards, so each number is
  // judged on its own. These are the numbers of devices for which it is valid, and the verdict of
  // each.
  std::vector<int> worlds;
  std::vector<WorldVerdict> by_world;
};

struct DiscoverOptions {
  std::vector<int> worlds = {2, 3, 4};
  // A dimension that all of `worlds` divide evenly is also split over a number of devices that does
  // not: what holds for equal shards alone must not be taken for a rule.
  bool uneven_worlds = true;
  uint64_t seed = 0;
  int threads = 2;
  bool shrink_witnesses = true;
  // A witness for every family that fails, not only for those that a reader would ask about.
  bool every_family = false;
  std::vector<InputGenerator> generators = default_generators();
  // Inputs that are made for the kind of the operator, beside `generators`.
  bool adversarial = true;
  // An operator whose equal calls differ is a result, with category random and no rules; else it is
  // a UserError.
  bool random_is_result = false;
  std::map<std::string, std::string> versions = {};  // for reports: {"torch": "2.13.0"}
  // Called now and then with the share that is done; may be empty.
  std::function<void(const std::string&, double)> progress;
  // Ends the work soon, with a UserError.
  std::stop_token stop = {};
};

// Every combination of one concrete call, each result decided on its own. The operator runs once
// per combination of operand placements and decomposition; all result placements are tested on
// those outputs.
std::vector<Decision> decide(const Operator& op, const Sample& sample,
                             const DiscoverOptions& options);

// The placements that a tensor may have: R, S(0).., P(sum), P(avg), P(max), P(min), P(prod).
std::vector<Placement> placements_of(const TensorDesc& desc);

// All placements of the operands that are tried together. Operators with more than three operands
// have too many: there, those that are not replicated are all sharded, or all partial under one
// reduction.
inline constexpr size_t kMaxFreeOperands = 3;
std::vector<std::vector<Placement>> operand_rows(
    const std::vector<TensorDesc>& operands,
    const std::function<std::vector<Placement>(const TensorDesc&)>& placements = placements_of);

// Runs one test: the witness if the combination fails. Used by `decide` and by the shrinking of
// witnesses.
struct Trial {
  int w = 2;
  std::vector<Array> operands;
  std::vector<std::vector<Array>> devices;
};
struct TrialResult {
  Match match = Match::Yes;
  bool informative = false;
  bool rejected = false;
  MatchResult detail;
  std::string error;
};
// What the operator gave, of the result that the combination is about.
struct TrialOutputs {
  Array truth;
  std::vector<Array> devices;
};
TrialResult run_trial(const Operator& op, const Sample& sample, const Combination& combination,
                      const Trial& trial, TrialOutputs* keep = nullptr);

// What rounding may change in a result, given what goes in. Relative: of the coarsest dtype that
// takes part. Slack: of the largest number that goes in. Integer results are exact.
Tolerance tolerance_for(const std::vector<std::vector<Array>>& devices, const Array& result,
                        bool partial_operand = true);
bool has_partial(const std::vector<Placement>& placements);
// What a number that is not finite on one side alone means. If an operand is partial, NaN and Inf
// say nothing if they came in with the operands, are the true result, or come from a number too
// large for the dtype; a device that makes NaN of finite operands is wrong if the true result is
// finite. If no operand is partial, the devices have the same numbers as the whole call, and what
// is NaN there must be NaN here: only numbers too large for the dtype are excused.
MatchResult judge(MatchResult match, const std::vector<std::vector<Array>>& devices,
                  const std::vector<Array>& outputs, bool partial_operand, bool partial_result);

// The same refutation with the smallest shapes, fewest devices and simplest numbers that still show
// it.
Witness shrink(const Operator& op, const Witness& witness);

}  // namespace cleave
