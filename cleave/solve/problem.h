#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::solver {

__extension__ using Int128 = __int128;

// A cost of kForbidden or more, on a node or on an edge, may not be chosen.
inline constexpr std::int64_t kForbidden = 1'000'000'000'000'000'000;

// The half-open span of time [lo, hi) during which a node occupies memory; lo == hi: never.
struct Interval {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
};

// One decision: strategy s costs `costs[s]` and occupies `usages[s]` while the node is live.
struct ProblemNode {
  Interval live;
  std::vector<std::int64_t> costs;
  std::vector<std::int64_t> usages;
};

// What two decisions cost together: `costs[s_a * K_b + s_b]`. Parallel edges add up.
struct ProblemEdge {
  int a = 0;
  int b = 0;
  std::vector<std::int64_t> costs;
};

// A problem of choices, as in the public IOPDDL benchmark, as plain data: choose one
// strategy for each node so that the sum of node and edge costs is least, while at every time the
// usages of the live nodes add up to at most the limit.
//
//   Problem p;
//   p.nodes.push_back({{0, 10}, {5, 1}, {4, 8}});   // cheap but big, or dear but small
//   p.nodes.push_back({{5, 15}, {0, 2}, {6, 3}});
//   p.edges.push_back({0, 1, {0, 7, 7, 0}});        // agreeing is free
//   p.usage_limit = 12;                             // 8 + 6 do not fit together at time 5
//   evaluate(p, {1, 1}).cost == 1 + 2 + 0
struct Problem {
  std::string name;
  std::vector<ProblemNode> nodes;
  std::vector<ProblemEdge> edges;
  std::optional<std::int64_t> usage_limit;
};

// What a choice of one strategy per node costs. Sums are exact.
struct Evaluation {
  Int128 cost = 0;             // forbidden entries count with their value
  Int128 peak = 0;             // largest usage over time
  std::int64_t peak_time = 0;  // the first time at which it is reached
  std::int64_t forbidden = 0;  // how many forbidden nodes and pairs were chosen
  bool within_limit = true;
  bool feasible() const { return within_limit && forbidden == 0; }
};

// Throws UserError when lengths, indices or signs are wrong; the message names the node or edge.
void validate(const Problem& problem);

// `choice` holds a valid strategy index for every node (UserError otherwise).
Evaluation evaluate(const Problem& problem, const std::vector<int>& choice);

// Reads IOPDDL JSON, plain or compressed with gzip (told apart by content). `source` names the text
// in messages. The result is validated.
Problem read_problem(const std::string& path);
Problem parse_problem(const std::string& json, const std::string& source);

// The same format back; write_problem compresses when the path ends in ".gz".
std::string format_problem(const Problem& problem);
void write_problem(const Problem& problem, const std::string& path);

// Int128 in decimal.
std::string to_string(Int128 value);

}  // namespace cleave::solver
