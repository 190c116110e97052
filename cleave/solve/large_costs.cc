#include "cleave/solve/large_costs.h"

#include <algorithm>
#include <iterator>

#include "cleave/solve/lanes.h"

namespace cleave::solver {
namespace {

// Takes the least of what may be chosen from all that may be, and returns it.
std::int64_t set_aside(std::vector<std::int64_t>& costs) {
  const std::int64_t least = *std::min_element(costs.begin(), costs.end());
  if (least >= kForbidden) return 0;
  for (std::int64_t& cost : costs)
    if (cost < kForbidden) cost -= least;
  return least;
}

Int128 set_aside(Problem& problem) {
  Int128 sum = 0;
  for (ProblemNode& node : problem.nodes) sum += set_aside(node.costs);
  for (ProblemEdge& edge : problem.edges) sum += set_aside(edge.costs);
  return sum;
}

void forbid_above(Problem& problem, Int128 most) {
  const auto forbid = [most](std::vector<std::int64_t>& costs) {
    for (std::int64_t& cost : costs)
      if (cost > most) cost = kForbidden;
  };
  for (ProblemNode& node : problem.nodes) forbid(node.costs);
  for (ProblemEdge& edge : problem.edges) forbid(edge.costs);
}

}  // namespace

Int128 sum_of_largest(const Problem& problem) {
  Int128 total = 0;
  // Several at a time: problems have millions of entries, and each is looked at here.
  const auto add = [&total](const std::vector<std::int64_t>& costs) {
    std::int64_t most[kLanes] = {};
    const auto look = [&](std::size_t i, int lane) {
      const std::int64_t cost = costs[i] < kForbidden ? costs[i] : 0;
      most[lane] = cost > most[lane] ? cost : most[lane];
    };
    std::size_t i = 0;
    for (; i + kLanes <= costs.size(); i += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) look(i + lane, lane);
    for (; i < costs.size(); ++i) look(i, 0);
    total += *std::max_element(std::begin(most), std::end(most));
  };
  for (const ProblemNode& node : problem.nodes) add(node.costs);
  for (const ProblemEdge& edge : problem.edges) add(edge.costs);
  return total;
}

Solution solve_in_steps(const Problem& problem, const SolveOptions& options,
                        const PlainSolve& plainly) {
  Problem rest = problem;
  const Int128 aside = set_aside(rest);
  SolveOptions left = options;
  if (left.effort == 0) left.effort = default_effort(options.time_limit);
  Solution result;
  double seconds = 0;
  std::uint64_t work = 0;
  while (true) {
    const Int128 total = sum_of_largest(rest);
    Solution solution = plainly(rest, left);
    seconds += solution.seconds;
    work += solution.work;
    // The bounds of all rounds hold: what they forbid costs more than a solution that is known.
    solution.lower_bound = std::max(solution.lower_bound, result.lower_bound);
    result = std::move(solution);
    if (!result.feasible || result.proven || result.effort_cut || total < kMostTotal) break;
    forbid_above(rest, result.cost);
    if (sum_of_largest(rest) >= total / 2) break;
    if (work >= left.effort / 2 || seconds >= options.time_limit) break;
    left.start = result.choice;
    left.time_limit = options.time_limit - seconds;
  }
  result.seconds = seconds;
  result.work = work;
  if (result.feasible) {
    result.cost += aside;
    result.proven = result.proven || result.lower_bound + aside >= result.cost;
  }
  result.lower_bound += aside;
  return result;
}

}  // namespace cleave::solver
