#include "cleave/solve/problem.h"

#include <algorithm>
#include <utility>

#include "cleave/core/error.h"

namespace cleave::solver {
namespace {

void check_entries(const std::vector<std::int64_t>& values, const char* what, const char* kind,
                   std::size_t index) {
  for (std::size_t s = 0; s < values.size(); ++s) {
    if (values[s] < 0) {
      throw_user("problem: {} {}: {} {} is {}; it must not be negative", kind, index, what, s,
                 values[s]);
    }
  }
}

}  // namespace

void validate(const Problem& problem) {
  const std::size_t n = problem.nodes.size();
  if (n == 0) throw_user("problem: there are no nodes");
  if (n > 100'000'000) throw_user("problem: {} nodes are too many", n);
  for (std::size_t i = 0; i < n; ++i) {
    const ProblemNode& node = problem.nodes[i];
    if (node.costs.empty()) throw_user("problem: node {} has no strategies", i);
    if (node.usages.size() != node.costs.size()) {
      throw_user("problem: node {} has {} costs but {} usages; one of each per strategy is needed",
                 i, node.costs.size(), node.usages.size());
    }
    if (node.live.lo < 0 || node.live.hi < node.live.lo) {
      throw_user("problem: node {} has the interval [{}, {}); 0 <= lo <= hi is needed", i,
                 node.live.lo, node.live.hi);
    }
    check_entries(node.costs, "cost", "node", i);
    check_entries(node.usages, "usage", "node", i);
  }
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    const ProblemEdge& edge = problem.edges[e];
    for (int end : {edge.a, edge.b}) {
      if (end < 0 || static_cast<std::size_t>(end) >= n) {
        throw_user("problem: edge {} joins {} and {}, but nodes go from 0 to {}", e, edge.a, edge.b,
                   n - 1);
      }
    }
    const std::size_t ka = problem.nodes[edge.a].costs.size();
    const std::size_t kb = problem.nodes[edge.b].costs.size();
    if (edge.costs.size() != ka * kb) {
      throw_user("problem: edge {} ({}, {}) has {} costs; {} x {} = {} are needed", e, edge.a,
                 edge.b, edge.costs.size(), ka, kb, ka * kb);
    }
    check_entries(edge.costs, "cost", "edge", e);
  }
  if (problem.usage_limit && *problem.usage_limit < 0) {
    throw_user("problem: the usage limit is {}; it must not be negative", *problem.usage_limit);
  }
}

Evaluation evaluate(const Problem& problem, const std::vector<int>& choice) {
  const std::size_t n = problem.nodes.size();
  if (choice.size() != n) {
    throw_user("evaluate: {} strategies were given for {} nodes", choice.size(), n);
  }
  Evaluation result;
  const auto count = [&result](std::int64_t cost) {
    result.cost += cost;
    if (cost >= kForbidden) ++result.forbidden;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  for (std::size_t i = 0; i < n; ++i) {
    const ProblemNode& node = problem.nodes[i];
    const int s = choice[i];
    if (s < 0 || static_cast<std::size_t>(s) >= node.costs.size()) {
      throw_user("evaluate: strategy {} was chosen for node {}, which has {}", s, i,
                 node.costs.size());
    }
    count(node.costs[s]);
    if (node.live.lo < node.live.hi && node.usages[s] != 0) {
      changes.emplace_back(node.live.lo, node.usages[s]);
      changes.emplace_back(node.live.hi, -node.usages[s]);
    }
  }
  for (const ProblemEdge& edge : problem.edges) {
    const std::size_t kb = problem.nodes[edge.b].costs.size();
    count(edge.costs[choice[edge.a] * kb + choice[edge.b]]);
  }
  std::sort(changes.begin(), changes.end());  // at equal times the releases come first
  Int128 usage = 0;
  for (const auto& [time, change] : changes) {
    usage += change;
    if (usage > result.peak) {
      result.peak = usage;
      result.peak_time = time;
    }
  }
  result.within_limit = !problem.usage_limit || result.peak <= *problem.usage_limit;
  return result;
}

std::string to_string(Int128 value) { return fmt::format("{}", value); }

}  // namespace cleave::solver
