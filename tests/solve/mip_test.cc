#include "cleave/solve/mip.h"

#include <gtest/gtest.h>

#include "cleave/solve/solve.h"
#include "tests/solve/random_problem.h"

namespace cleave::solver {
namespace {

using test::brute_force;
using test::random_problem;
using test::RandomShape;

TEST(Mip, AgreesWithBruteForceAndWithSolve) {
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.nodes = 3 + round % 5;
    shape.strategies = 2 + round % 3;
    shape.forbidden = 0.1 * (round % 3);
    shape.tightness = round % 6 == 0 ? -1 : 0.15 * (round % 5);
    const Problem problem = random_problem(7000 + round, shape);
    const std::optional<Int128> best = brute_force(problem);
    const Solution mip = solve_mip(problem, {.time_limit = 60, .lazy_rows = round % 2 == 0});
    ASSERT_TRUE(mip.proven) << "problem " << round;
    ASSERT_EQ(mip.feasible, best.has_value()) << "problem " << round;
    if (best) {
      ASSERT_TRUE(mip.cost == *best) << "problem " << round;
    }
  }
}

// Too large for brute force.
TEST(Mip, AgreesWithSolveOnLargerProblems) {
  for (int round = 0; round < 6; ++round) {
    RandomShape shape;
    shape.nodes = 25;
    shape.strategies = 4;
    shape.density = 0.08;
    shape.forbidden = 0;
    shape.tightness = 0.2 + 0.05 * round;
    shape.horizon = 30;
    const Problem problem = random_problem(8000 + round, shape);
    const Solution mip = solve_mip(problem, {});
    const Solution own = solve(problem, {.effort = 20000, .time_limit = 60});
    ASSERT_TRUE(mip.proven && own.proven) << "problem " << round;
    ASSERT_EQ(mip.feasible, own.feasible) << "problem " << round;
    ASSERT_EQ(to_string(mip.cost), to_string(own.cost)) << "problem " << round;
  }
}

TEST(Mip, SaysThatNothingFits) {
  Problem problem;
  problem.nodes.push_back({{0, 4}, {1, 2}, {30, 40}});
  problem.nodes.push_back({{2, 6}, {1}, {25}});
  problem.usage_limit = 54;
  const Solution solution = solve_mip(problem);
  EXPECT_FALSE(solution.feasible);
  EXPECT_TRUE(solution.proven);
}

}  // namespace
}  // namespace cleave::solver
