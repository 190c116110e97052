#pragma once

#include <string>
#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/discover/discover.h"

namespace cleave {

// A factor rule and a partial transfer made from the valid combinations of one call, and what they
// cannot say: valid combinations that they do not claim, with the reason.
struct SynthesizedRule {
  OpShardingRule rule;
  PartialTransfer partial;
  std::vector<std::string> not_expressible;
};
SynthesizedRule synthesize(const SampleDecisions& sample);

// Along a dimension of size 1 more is valid than a rule says: a sum over it sums nothing.
bool is_degenerate(const Sample& sample);

// A replicated result is also P(avg), P(max) and P(min).
bool is_implied(const SampleDecisions& sample, const Combination& combination);

// A rule against what is true of a call.
struct RuleDiff {
  std::vector<Decision> incorrect;  // claimed, and refuted or rejected: a bug in the rule
  std::vector<Decision> missing;    // valid, not claimed; implied ones left out
};
RuleDiff diff_rule(const OpShardingRule& rule, const PartialTransfer& partial,
                   const SampleDecisions& sample, const std::vector<int>& worlds);

}  // namespace cleave
