#include "cleave/solve/infeasible.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace cleave::solver {
namespace {

std::string forbidden_node(const Problem& problem) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const std::vector<std::int64_t>& costs = problem.nodes[i].costs;
    if (std::all_of(costs.begin(), costs.end(), [](std::int64_t c) { return c >= kForbidden; }))
      return fmt::format("node {}: each of its {} strategies is forbidden", i, costs.size());
  }
  return {};
}

std::string forbidden_edge(const Problem& problem) {
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    const ProblemEdge& edge = problem.edges[e];
    const std::vector<std::int64_t>& a = problem.nodes[edge.a].costs;
    const std::vector<std::int64_t>& b = problem.nodes[edge.b].costs;
    bool any = false;
    for (std::size_t s = 0; s < a.size() && !any; ++s) {
      for (std::size_t t = 0; t < b.size() && !any; ++t) {
        const bool same = edge.a != edge.b || s == t;
        any = same && a[s] < kForbidden && b[t] < kForbidden &&
              edge.costs[s * b.size() + t] < kForbidden;
      }
    }
    if (!any)
      return fmt::format("edge {} between nodes {} and {}: each pair of strategies is forbidden", e,
                         edge.a, edge.b);
  }
  return {};
}

// What the node takes at least, with a strategy that is allowed.
std::int64_t least_usage(const ProblemNode& node) {
  std::int64_t least = INT64_MAX;
  for (std::size_t s = 0; s < node.costs.size(); ++s) {
    if (node.costs[s] < kForbidden) least = std::min(least, node.usages[s]);
  }
  return least;
}

std::string too_much_memory(const Problem& problem) {
  if (!problem.usage_limit) return {};
  const std::int64_t limit = *problem.usage_limit;
  std::vector<std::tuple<std::int64_t, std::int64_t, int>> changes;  // time, usage, live nodes
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const ProblemNode& node = problem.nodes[i];
    if (node.live.lo == node.live.hi) continue;
    const std::int64_t least = least_usage(node);
    if (least > limit)
      return fmt::format("node {} alone uses at least {}; the limit is {}", i, least, limit);
    changes.emplace_back(node.live.lo, least, 1);
    changes.emplace_back(node.live.hi, -least, -1);
  }
  std::sort(changes.begin(), changes.end());
  Int128 usage = 0, peak = 0;
  int live = 0, live_then = 0;
  std::int64_t when = 0;
  for (std::size_t q = 0; q < changes.size(); ++q) {
    const auto& [time, change, count] = changes[q];
    usage += change;
    live += count;
    const bool last = q + 1 == changes.size() || std::get<0>(changes[q + 1]) != time;
    if (last && usage > peak) {
      peak = usage;
      when = time;
      live_then = live;
    }
  }
  if (peak <= limit) return {};
  return fmt::format(
      "at time {} the smallest usages of the {} live nodes add up to {}; the limit is {}", when,
      live_then, to_string(peak), limit);
}

}  // namespace

std::string why_infeasible(const Problem& problem) {
  for (const auto& check : {forbidden_node, forbidden_edge, too_much_memory}) {
    if (std::string why = check(problem); !why.empty()) return why;
  }
  return {};
}

}  // namespace cleave::solver
