#include "cleave/solve/large_costs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/solve/random_problem.h"

namespace cleave::solver {
namespace {

constexpr std::int64_t kLarge = kForbidden - 1;

// A chain whose neighbours had better differ; every second node takes the dearer strategy.
Problem chain(int nodes) {
  Problem problem;
  for (int i = 0; i < nodes; ++i) problem.nodes.push_back({{0, 0}, {kLarge, kLarge - 7}, {0, 0}});
  for (int i = 1; i < nodes; ++i) problem.edges.push_back({i - 1, i, {kLarge, 3, 3, kLarge - 9}});
  return problem;
}

// A search that spends no work, and so does not end by itself, is cut by the clock and says so.
constexpr std::uint64_t kEffort = 200;

// Sums beyond 64 bits: costs are first compared at lower resolution, the result is exact.
TEST(Solve, CountsIn128Bits) {
  for (int nodes : {40, 41}) {
    const Solution solution = solve(chain(nodes), {.effort = kEffort});
    ASSERT_TRUE(solution.feasible);
    EXPECT_FALSE(solution.effort_cut);
    EXPECT_TRUE(solution.proven);
    const int cheap = (nodes + 1) / 2;
    EXPECT_EQ(to_string(solution.cost),
              to_string(static_cast<Int128>(kLarge) * nodes - 7 * cheap + 3 * (nodes - 1)));
    EXPECT_EQ(to_string(solution.lower_bound), to_string(solution.cost));
  }
}

// Without a way around large costs their sum keeps its resolution of some sixteen digits.
TEST(Solve, LargeSumsThatCannotBeAvoidedEndByThemselves) {
  Problem problem = chain(40);
  for (ProblemNode& node : problem.nodes) node.costs = {kLarge, 5};
  for (ProblemEdge& edge : problem.edges) edge.costs = {7, 3, 3, kLarge - 9};
  const Solution solution = solve(problem, {.effort = kEffort});
  ASSERT_TRUE(solution.feasible);
  EXPECT_FALSE(solution.effort_cut);
  EXPECT_EQ(to_string(solution.cost),
            to_string(static_cast<Int128>(kLarge) * 20 + 21 * 5 + 38 * 3 - 9));
  EXPECT_TRUE(solution.lower_bound <= solution.cost);
  EXPECT_LT(solution.gap(), 1e-9);
}

TEST(Solve, AgreesWithBruteForceOnLargeCosts) {
  int proven = 0, feasible = 0;
  for (int round = 0; round < 200; ++round) {
    test::RandomShape shape;
    shape.nodes = 3 + round % 6;
    shape.strategies = 2 + round % 3;
    shape.density = 0.5;
    shape.forbidden = 0.1 * (round % 3);
    shape.tightness = round % 2 ? 0.4 : -1;
    Problem problem = test::random_problem(9000 + round, shape);
    // Some entries become large, all by something of their own; from 10^14 on.
    const std::int64_t large = kLarge / static_cast<std::int64_t>(std::pow(10, round % 5));
    std::int64_t count = 0;
    const auto enlarge = [&](std::vector<std::int64_t>& costs) {
      for (std::int64_t& cost : costs)
        if (cost < kForbidden && ++count % (2 + round % 4) == 0) cost += large - 100'000 * count;
    };
    for (ProblemNode& node : problem.nodes) enlarge(node.costs);
    for (ProblemEdge& edge : problem.edges) enlarge(edge.costs);
    const std::optional<Int128> best = test::brute_force(problem);
    const Solution solution = solve(problem, {.effort = kEffort, .threads = 1});
    ASSERT_EQ(solution.feasible, best.has_value()) << round;
    if (!best) continue;
    ASSERT_FALSE(solution.effort_cut) << round;
    ++feasible;
    ASSERT_TRUE(solution.lower_bound <= *best) << round;
    ASSERT_TRUE(solution.cost >= *best) << round;
    ASSERT_TRUE(!solution.proven || solution.cost == *best) << round;
    ASSERT_LT(solution.gap(), 1e-9) << round;
    proven += solution.proven;
  }
  EXPECT_GT(feasible, 100);
  EXPECT_GT(proven, 40);
}

}  // namespace
}  // namespace cleave::solver
