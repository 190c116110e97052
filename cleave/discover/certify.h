#pragma once

#include <string>
#include <vector>

#include "cleave/discover/engine.h"
#include "cleave/graph/graph.h"

namespace cleave {

// One thing that an op's rule and partial transfer say, tried by execution: on a mesh axis of w
// devices, operands so placed give results so placed, and the partitioned program has no
// communication.
struct Claim {
  std::string op;
  std::vector<Placement> operands;
  std::vector<Placement> results;
  int w = 2;
  VerdictKind verdict = VerdictKind::Untestable;
  int tests = 0;
  std::string reason;  // if it is refuted
};
std::string to_string(const Claim& claim);

// Whether the program that the partitioner makes of a call with these placements has no
// communication. Every op of the call takes its operands as they are, pending ones that several ops
// use included (the mark `cleave.planned`).
bool runs_alone(const Graph& call, const std::vector<Placement>& operands,
                const std::vector<Placement>& results, int w);

// Tries every claim of the rule and the partial transfer of the one op in the function "main" of
// `sample`: sharded and partial operands, uneven sizes, every decomposition. Runs what the
// partitioner makes of it, so that the op's local form is certified too.
std::vector<Claim> certify(const Graph& sample, const DiscoverOptions& options);

// A module with one op for every op of the registry that has a rule and a kernel.
const std::vector<Graph>& registry_samples();
// Registered ops that have no sample, each with the reason.
std::vector<std::pair<std::string, std::string>> ops_without_sample();
// The reason why a registered op has none; nothing if it has one.
std::optional<std::string> reason_without_sample(std::string_view name);

}  // namespace cleave
