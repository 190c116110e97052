#pragma once

#include <string>
#include <vector>

#include "cleave/discover/certify.h"

namespace cleave {

// A placement that is right for a call of a registered op and that its rule and partial transfer do
// not claim, with the reason why they do not.
struct MissingClaim {
  std::string op;
  std::string call;         // "5x4xf64, f64; dimensions=[1]"
  std::string combination;  // "P(sum), R -> result 1: P(sum)"
  std::string reason;
};

// The whole registry against execution: every claim of every rule (`incorrect` must be empty), and,
// if asked for, every placement of every sample (`missing`).
struct RegistryReport {
  size_t samples = 0;
  size_t claims = 0;
  std::vector<Claim> untestable;  // each with the reason
  size_t combinations = 0;        // decided for `missing`
  std::vector<Claim> incorrect;
  std::vector<MissingClaim> missing;  // averages and implied placements left out
};
RegistryReport check_registry(const DiscoverOptions& options, bool find_missing);

// What the rule of one call does not claim; refuted claims go to `incorrect`.
void find_missing(const Graph& call, const DiscoverOptions& options, RegistryReport& report);

// The list as Markdown, one table row per reason and op.
std::string missing_markdown(const RegistryReport& report);

}  // namespace cleave
