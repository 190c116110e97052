#include "cleave/solve/reduction.h"

#include <gtest/gtest.h>

#include "cleave/solve/model.h"
#include "cleave/solve/timeline.h"
#include "tests/solve/random_problem.h"

namespace cleave::solver {
namespace {

using test::brute_force;
using test::random_problem;
using test::RandomShape;

// The best over all choices of what the reduction left, judged on the original problem.
std::optional<Int128> best_of_reduced(const Problem& problem, const Reduction& reduction) {
  std::vector<int> live;
  for (std::size_t i = 0; i < reduction.nodes().size(); ++i) {
    if (!reduction.nodes()[i].gone) live.push_back(static_cast<int>(i));
  }
  std::vector<int> picked(problem.nodes.size(), 0);
  std::optional<Int128> best;
  while (true) {
    const Evaluation e = evaluate(problem, reduction.expand(picked));
    if (e.feasible() && (!best || e.cost < *best)) best = e.cost;
    std::size_t q = 0;
    while (q < live.size() &&
           ++picked[live[q]] == static_cast<int>(reduction.nodes()[live[q]].strategy.size())) {
      picked[live[q++]] = 0;
    }
    if (q == live.size()) return best;
  }
}

TEST(Reduction, KeepsTheOptimum) {
  int shrunk = 0, infeasible = 0;
  for (int round = 0; round < 600; ++round) {
    RandomShape shape;
    shape.nodes = 2 + round % 7;
    shape.strategies = 2 + round % 4;
    shape.forbidden = 0.1 * (round % 5);
    shape.tightness = round % 5 == 0 ? -1 : 0.15 * (round % 6);
    shape.cost_range = round % 3 ? 100 : 4;
    const Problem problem = random_problem(1000 + round, shape);
    const std::optional<Int128> best = brute_force(problem);
    Reduction reduction(problem);
    if (!reduction.run()) {
      ++infeasible;
      ASSERT_FALSE(best.has_value()) << "problem " << round;
      EXPECT_FALSE(reduction.reason().empty());
      continue;
    }
    const std::optional<Int128> kept = best_of_reduced(problem, reduction);
    ASSERT_EQ(kept.has_value(), best.has_value()) << "problem " << round;
    if (best) {
      ASSERT_TRUE(*kept == *best) << "problem " << round;
    }
    for (const ReducedNode& node : reduction.nodes()) shrunk += node.gone;
  }
  EXPECT_GT(shrunk, 1000);
  EXPECT_GT(infeasible, 10);
}

TEST(Reduction, KeepsTheOptimumOfWhatIsLeftAfterRestriction) {
  for (int round = 0; round < 200; ++round) {
    RandomShape shape;
    shape.nodes = 6;
    shape.tightness = 0.4;
    const Problem problem = random_problem(3000 + round, shape);
    Reduction reduction(problem);
    if (!reduction.run()) continue;
    int node = -1;
    for (std::size_t i = 0; i < reduction.nodes().size(); ++i) {
      if (!reduction.nodes()[i].gone && reduction.nodes()[i].strategy.size() > 1)
        node = static_cast<int>(i);
    }
    if (node < 0) continue;
    const int forbidden = reduction.nodes()[node].strategy[0];
    std::vector<char> keep(reduction.nodes()[node].strategy.size(), 1);
    keep[0] = 0;
    Reduction restricted = reduction;
    restricted.restrict(node, keep);
    const std::optional<Int128> before = best_of_reduced(problem, reduction);
    const std::optional<Int128> after =
        restricted.run() ? best_of_reduced(problem, restricted) : std::nullopt;
    if (after) {
      EXPECT_TRUE(before && *after >= *before);
    }
    Problem without = problem;
    without.nodes[node].costs[forbidden] = kForbidden;
    const std::optional<Int128> direct = brute_force(without);
    // The restriction speaks of what the reduction left, so it can only be worse than the direct
    // way.
    if (after) {
      ASSERT_TRUE(direct.has_value());
      EXPECT_TRUE(*after >= *direct);
    }
  }
}

// Cut short anywhere, it keeps the optimum, and the model that is built from it prices as the
// problem does.
TEST(Reduction, MayBeInterrupted) {
  int whole = 0, priced = 0;
  for (int round = 0; round < 300; ++round) {
    RandomShape shape;
    shape.nodes = 6;
    shape.forbidden = 0.1 * (round % 3);
    shape.tightness = 0.2 * (round % 5);
    const Problem problem = random_problem(5000 + round, shape);
    const std::optional<Int128> best = brute_force(problem);
    Reduction reduction(problem);
    int left = round % 12;
    if (!reduction.run([&left] { return left-- <= 0; })) {
      ASSERT_FALSE(best.has_value()) << "problem " << round;
      continue;
    }
    whole += left > 0;
    const std::optional<Int128> kept = best_of_reduced(problem, reduction);
    ASSERT_EQ(kept.has_value(), best.has_value()) << "problem " << round;
    if (best) {
      ASSERT_TRUE(*kept == *best) << "problem " << round;
    }
    const Model model = build_model(reduction, program_order(problem));
    std::vector<int> x(model.n);
    for (int i = 0; i < model.n; ++i) x[i] = round % model.k[i];
    const double cost = model.evaluate(x);
    const Evaluation direct = evaluate(problem, reduction.expand(to_reduced(reduction, model, x)));
    // Pairs that others dominate are forbidden in the model alone.
    if (!direct.feasible() || cost >= kBig / 4) continue;
    EXPECT_EQ(cost, static_cast<double>(direct.cost)) << "problem " << round;
    ++priced;
  }
  EXPECT_LT(whole, 200);
  EXPECT_GT(priced, 50);
}

TEST(Reduction, MergesChainsOfEqualities) {
  Problem problem;
  for (int i = 0; i < 50; ++i) problem.nodes.push_back({{i, i + 2}, {3, 2, 4}, {1, 2, 1}});
  for (int i = 1; i < 50; ++i) {
    problem.edges.push_back(
        {i - 1,
         i,
         {0, kForbidden, kForbidden, kForbidden, 0, kForbidden, kForbidden, kForbidden, 0}});
  }
  problem.usage_limit = 3;
  Reduction reduction(problem);
  ASSERT_TRUE(reduction.run());
  int live = 0;
  for (const ReducedNode& node : reduction.nodes()) live += !node.gone && node.strategy.size() > 1;
  EXPECT_EQ(live, 0);
}

TEST(Reduction, CompactsToWhatIsLeft) {
  RandomShape shape;
  shape.nodes = 7;
  shape.tightness = 0.3;
  for (int round = 0; round < 100; ++round) {
    const Problem problem = random_problem(4000 + round, shape);
    Reduction reduction(problem);
    if (!reduction.run()) continue;
    std::vector<int> kept;
    const Reduction compact = reduction.compact(kept);
    ASSERT_EQ(compact.nodes().size(), kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(compact.nodes()[i].cost, reduction.nodes()[kept[i]].cost);
    }
    EXPECT_TRUE(compact.constant() == reduction.constant());
  }
}

// Node 0 takes 5 or 9 during [0, 3), node 1 takes 1 or 2 during [1, 2): time 1 implies times 0
// and 2.
TEST(Timeline, KeepsOnlyThePeak) {
  const std::vector<std::int64_t> first{0, 4}, second{0, 1};
  const std::vector<char> kept =
      binding_times({5, 6, 5}, 9, {{0, 0, 3, first}, {1, 1, 2, second}}, {2, 2});
  EXPECT_EQ(kept, (std::vector<char>{0, 1, 0}));
}

TEST(Timeline, DropsTimesThatCannotBind) {
  const std::vector<std::int64_t> usage{0, 4};
  EXPECT_EQ(binding_times({5, 1}, 8, {{0, 0, 2, usage}}, {2}), (std::vector<char>{1, 0}));
}

}  // namespace
}  // namespace cleave::solver
