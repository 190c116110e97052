#include "cleave/solve/solve.h"

#include <gtest/gtest.h>

#include <stop_token>

#include "tests/solve/random_problem.h"

namespace cleave::solver {
namespace {

using test::brute_force;
using test::random_problem;
using test::RandomShape;

RandomShape shape_of(int round) {
  RandomShape shape;
  shape.nodes = 2 + round % 7;
  shape.strategies = 2 + round % 4;
  shape.density = 0.2 + 0.15 * (round % 5);
  shape.forbidden = 0.1 * (round % 4);
  shape.tightness = round % 9 == 0 ? -1 : 0.1 * (round % 7);
  return shape;
}

TEST(Solve, AgreesWithBruteForceOnAThousandProblems) {
  int infeasible = 0;
  for (int round = 0; round < 1000; ++round) {
    const Problem problem = random_problem(round, shape_of(round));
    const std::optional<Int128> best = brute_force(problem);
    const Solution solution = solve(problem, {.effort = 2000, .time_limit = 60, .threads = 1});
    ASSERT_TRUE(solution.proven) << "problem " << round;
    ASSERT_EQ(solution.feasible, best.has_value()) << "problem " << round;
    if (!best) {
      ++infeasible;
      continue;
    }
    ASSERT_EQ(to_string(solution.cost), to_string(*best)) << "problem " << round;
    ASSERT_TRUE(solution.lower_bound == solution.cost);
    const Evaluation evaluation = evaluate(problem, solution.choice);
    ASSERT_TRUE(evaluation.feasible());
    ASSERT_TRUE(evaluation.cost == solution.cost);
  }
  EXPECT_GT(infeasible, 20);
  EXPECT_LT(infeasible, 500);
}

TEST(Solve, BoundHoldsWithoutExactFinish) {
  for (int round = 0; round < 100; ++round) {
    const Problem problem = random_problem(5000 + round, shape_of(round));
    const std::optional<Int128> best = brute_force(problem);
    const Solution solution =
        solve(problem, {.effort = 3, .time_limit = 60, .threads = 1, .exact = false});
    if (!best) {
      EXPECT_FALSE(solution.feasible);
      continue;
    }
    EXPECT_TRUE(solution.lower_bound <= *best) << "problem " << round;
    if (solution.feasible) {
      EXPECT_TRUE(solution.cost >= *best);
    }
  }
}

RandomShape medium() {
  RandomShape shape;
  shape.nodes = 60;
  shape.strategies = 6;
  shape.density = 0.06;
  shape.forbidden = 0;
  shape.tightness = 0.25;
  shape.horizon = 40;
  shape.cost_range = 100000;
  return shape;
}

TEST(Solve, SameResultForAnyNumberOfThreads) {
  for (int seed = 0; seed < 4; ++seed) {
    const Problem problem = random_problem(100 + seed, medium());
    const SolveOptions one{.effort = 300, .time_limit = 600, .seed = 5, .threads = 1};
    SolveOptions two = one;
    two.threads = 2;
    SolveOptions many = one;
    many.threads = 5;
    const Solution first = solve(problem, one);
    for (const SolveOptions& options : {one, two, many}) {
      const Solution again = solve(problem, options);
      EXPECT_FALSE(again.effort_cut);
      EXPECT_EQ(again.choice, first.choice);
      EXPECT_TRUE(again.cost == first.cost);
      EXPECT_TRUE(again.lower_bound == first.lower_bound);
      EXPECT_EQ(again.work, first.work);
    }
  }
}

TEST(Solve, ProvesMediumProblems) {
  for (int seed = 0; seed < 3; ++seed) {
    const Problem problem = random_problem(200 + seed, medium());
    const Solution solution = solve(problem, {.effort = 1000, .time_limit = 60, .threads = 2});
    EXPECT_TRUE(solution.feasible);
    EXPECT_TRUE(solution.lower_bound <= solution.cost);
    EXPECT_LT(solution.gap(), 0.05);
  }
}

TEST(Solve, SaysWhyNothingFits) {
  Problem problem;
  problem.nodes.push_back({{0, 4}, {1, 2}, {30, 40}});
  problem.nodes.push_back({{2, 6}, {1}, {25}});
  problem.usage_limit = 54;
  const Solution solution = solve(problem, {});
  EXPECT_FALSE(solution.feasible);
  EXPECT_TRUE(solution.proven);
  EXPECT_TRUE(solution.choice.empty());
  EXPECT_EQ(solution.reason,
            "at time 2 the smallest usages of the 2 live nodes add up to 55; the limit is 54");
  problem.nodes[0].costs = {kForbidden, kForbidden};
  EXPECT_EQ(solve(problem, {}).reason, "node 0: each of its 2 strategies is forbidden");
  problem.nodes[0].costs = {1, 2};
  problem.usage_limit = 55;
  EXPECT_TRUE(solve(problem, {}).cost == 2);
}

TEST(Solve, SaysThatForbiddenPairsLeaveNothing) {
  Problem problem;
  problem.nodes.push_back({{0, 0}, {1, 2}, {0, 0}});
  problem.nodes.push_back({{0, 0}, {1, 2}, {0, 0}});
  problem.edges.push_back({0, 1, {0, kForbidden, kForbidden, kForbidden}});
  problem.edges.push_back({1, 0, {kForbidden, 0, 0, 0}});
  const Solution solution = solve(problem, {});
  EXPECT_FALSE(solution.feasible);
  EXPECT_TRUE(solution.proven);
}

TEST(Solve, AddsParallelEdgesAndLoops) {
  Problem problem;
  problem.nodes.push_back({{0, 0}, {0, 0}, {0, 0}});
  problem.nodes.push_back({{0, 0}, {0, 0}, {0, 0}});
  problem.edges.push_back({0, 1, {5, 9, 9, 6}});
  problem.edges.push_back({1, 0, {4, 9, 9, 1}});
  problem.edges.push_back({0, 0, {0, kForbidden, kForbidden, 1}});
  const Solution solution = solve(problem, {});
  EXPECT_TRUE(solution.cost == 8);
  EXPECT_EQ(solution.choice, (std::vector<int>{1, 1}));
}

TEST(Solve, StopsWhenAskedAndSaysSo) {
  RandomShape shape = medium();
  shape.nodes = 300;
  shape.density = 0.03;
  const Problem problem = random_problem(7, shape);
  std::stop_source source;
  SolveOptions options{.effort = 1'000'000, .time_limit = 600};
  options.stop = source.get_token();
  int calls = 0, late = 0;
  options.observer = [&](const Progress& progress) {
    late += source.stop_requested();
    if (progress.feasible || ++calls > 20) source.request_stop();
  };
  const Solution solution = solve(problem, options);
  EXPECT_TRUE(source.stop_requested());
  EXPECT_TRUE(solution.effort_cut || solution.proven);
  EXPECT_LE(late, 2);  // no further round, and at most one look at what is open
  EXPECT_LT(solution.work, options.effort / 10);
}

TEST(Solve, TimeLimitCuts) {
  RandomShape shape = medium();
  shape.nodes = 300;
  shape.density = 0.03;
  const Problem problem = random_problem(8, shape);
  const SolveOptions options{.effort = 1'000'000, .time_limit = 0.3};
  const Solution solution = solve(problem, options);
  EXPECT_TRUE(solution.effort_cut || solution.proven);
  EXPECT_LT(solution.work, options.effort / 10);  // all of it would take many minutes
}

}  // namespace
}  // namespace cleave::solver
