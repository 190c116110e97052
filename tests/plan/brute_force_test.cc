#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "cleave/analyze/kernels.h"
#include "cleave/plan/lazy_solver.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/tables.h"
#include "models.h"

namespace cleave::plan {
namespace {

using namespace test;

// The planner, step by step.
struct Opened {
  Graph flat;
  Names names;
  Layouts layouts;
  StrategyBook book;
  Formulation formulation;
  Tables tables;

  Opened(const std::string& text, const char* mesh)
      : flat(flatten(parse_module(text), "main", builtin_profile("h100"))),
        names(name_everything(flat, "main")),
        layouts(std::make_shared<const Mesh>(parse_mesh(mesh)), builtin_profile("h100")),
        book(flat, layouts),
        formulation(flat, names, layouts, book, {}),
        tables(formulation, layouts, every_decision_apart(formulation)) {}
};

// All assignments, one after the other.
double cheapest(const Opened& o, std::optional<int64_t> limit, size_t& tried) {
  const size_t n = o.formulation.decisions.size();
  std::vector<int> choice(n);
  double best = std::numeric_limits<double>::infinity();
  tried = 0;
  while (true) {
    ++tried;
    const double seconds = o.tables.seconds(choice);
    if (seconds < best) {
      bool fits = true;
      if (limit)
        for (int64_t bytes : o.tables.memory(choice)) fits = fits && bytes <= *limit;
      if (fits) best = seconds;
    }
    size_t d = 0;
    while (d < n && ++choice[d] == o.formulation.decisions[d].count) choice[d++] = 0;
    if (d == n) return best;
  }
}

TEST(BruteForce, PlansAreTheCheapestAssignment) {
  std::mt19937 random(7);
  auto size = [&] { return int64_t{64} << random() % 8; };
  for (int i = 0; i < 12; ++i) {
    const std::string text = i % 3 == 2 ? diamond(size()) : mlp(size(), size(), size(), size());
    const char* mesh = i % 2 ? "x=8" : "x=4";
    const Opened opened(text, mesh);
    const int64_t most =
        opened.tables.memory(std::vector<int>(opened.formulation.decisions.size()))[1];
    for (const double tightness : {0.0, 0.35, 0.6}) {
      PlannerOptions options;
      options.mesh = opened.layouts.mesh();
      options.profile = &builtin_profile("h100");
      options.objective = Objective::Sum;  // sums are compared
      if (tightness > 0)
        options.memory = static_cast<int64_t>(tightness * static_cast<double>(most));
      size_t tried = 0;
      const double best = cheapest(opened, options.memory, tried);
      EXPECT_GT(tried, 500u);
      const Graph graph = parse_module(text);
      for (PlanSolver solver : {PlanSolver::Cleave, PlanSolver::Mip}) {
        options.solver = solver;
        options.apart = true;
        const PlannerResult result = make_plan(graph, options);
        ASSERT_EQ(result.plan.has_value(), best < 1e9) << text;
        if (result.plan) {
          EXPECT_NEAR(result.plan->totals.seconds, best, 1e-8) << text;
        }
      }
    }
  }
}

// Without the planner's merging: every op, argument and layout of the result for itself.
TEST(BruteForce, MergingLosesNothingOnChains) {
  std::mt19937 random(11);
  auto size = [&] { return int64_t{256} << random() % 6; };
  for (int i = 0; i < 20; ++i) {
    const std::string text = mlp(size(), size(), size(), size());
    Opened o(text, "x=4");
    const Function& main = *o.flat.find_function("main");
    const std::vector<NodeId>& nodes = o.flat.region(main.body).nodes;
    const std::vector<ValueId>& args = o.flat.region(main.body).args;
    auto strategies = [&](int n) -> const std::vector<Strategy>& {
      return o.book.strategies(nodes[n], std::vector<bool>(n == 1 ? 1 : 2, false)).list;
    };
    auto move = [&](SpecId from, SpecId to, ValueId value) {
      if (from == to) return 0.0;
      return o.layouts.seconds(from, to, o.flat.type(value)) +
             analyze::spill_seconds(analyze::spill_bytes(o.flat, value), o.layouts.spec(from),
                                    o.layouts.profile());
    };
    const double host = analyze::step_seconds(o.flat, main.body, o.layouts.profile());
    double best = std::numeric_limits<double>::infinity();
    const auto& first = o.flat.node(nodes[0]);
    const auto& second = o.flat.node(nodes[2]);
    for (const Strategy& a : strategies(0))
      for (const Strategy& b : strategies(1))
        for (const Strategy& c : strategies(2))
          for (SpecId out : o.layouts.candidates(o.flat.result_type(second).shape)) {
            double total = host + a.seconds + b.seconds + c.seconds;
            auto from_argument = [&](ValueId arg, SpecId want) {
              double least = std::numeric_limits<double>::infinity();
              for (SpecId have : o.layouts.candidates(o.flat.type(arg).shape))
                least = std::min(least, move(have, want, arg));
              return least;
            };
            total += from_argument(args[0], a.operands[0]) + from_argument(args[1], a.operands[1]);
            total += move(a.results[0], b.operands[0], first.results[0]);
            total += move(b.results[0], c.operands[0], second.operands[0]);
            total += from_argument(args[2], c.operands[1]);
            total += move(c.results[0], out, second.results[0]);
            best = std::min(best, total);
          }
    PlannerOptions options;
    options.mesh = o.layouts.mesh();
    options.profile = &builtin_profile("h100");
    options.objective = Objective::Sum;  // sums are compared
    const PlannerResult result = make_plan(parse_module(text), options);
    ASSERT_TRUE(result.plan);
    EXPECT_NEAR(result.plan->totals.seconds, best, 1e-8) << text;
  }
}

// Reshards of one choice count as they are weighed. Others save no more than those do, and a
// Problem with such weights is the sum that `seconds` says it is.
TEST(BruteForce, WhatIsUnlikeAChoiceSavesNoMore) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> share(0, 1);
  for (int i = 0; i < 4; ++i) {
    const Opened o(i % 2 ? diamond(512) : mlp(1024, 512, 2048, 512), i < 2 ? "x=8" : "x=2,y=4");
    const auto any = [&] {
      std::vector<int> choice;
      for (const Decision& decision : o.formulation.decisions)
        choice.push_back(static_cast<int>(random() % decision.count));
      return choice;
    };
    const std::vector<int> like = any();
    std::vector<ReshardWeights> by_demand;
    std::vector<double> hides, nothing(o.formulation.demands.size(), 0.0);
    for (size_t d = 0; d < nothing.size(); ++d) {
      const double full = share(random);
      by_demand.push_back({full, 1 - full, 0.3 * (1 - full), 0.2 * (1 - full)});
      hides.push_back(share(random));
    }
    const TableWeights plain = o.tables.weigh(by_demand);
    const TableWeights own = o.tables.weigh(by_demand, Likeness{like, hides});
    const TableWeights bare = o.tables.weigh(by_demand, Likeness{like, nothing});
    EXPECT_DOUBLE_EQ(o.tables.seconds(like, own), o.tables.seconds(like, plain));
    EXPECT_DOUBLE_EQ(o.tables.seconds(like, bare), o.tables.seconds(like, plain));
    const solver::Problem problem = o.tables.problem({}, std::nullopt, &own);
    const double saved = o.tables.seconds(like) - o.tables.seconds(like, own);
    for (int tries = 0; tries < 50; ++tries) {
      std::vector<int> choice = like;
      for (size_t d = 0; d < choice.size(); ++d)
        if (const std::vector<int> other = any(); random() % 3 == 0) choice[d] = other[d];
      const double alone = o.tables.seconds(choice), seconds = o.tables.seconds(choice, own);
      if (alone > 1e6) continue;  // forbidden
      EXPECT_LE(seconds, alone * (1 + 1e-12));
      EXPECT_GE(seconds, o.tables.seconds(choice, plain) * (1 - 1e-12));
      EXPECT_LE(seconds, o.tables.seconds(choice, bare) * (1 + 1e-12));
      EXPECT_LE(alone - seconds, saved + 1e-12);
      const double cost = static_cast<double>(solver::evaluate(problem, choice).cost) * kCostUnit;
      EXPECT_NEAR(cost, seconds,
                  4 * kCostUnit * static_cast<double>(o.formulation.versions.size()));
    }
  }
}

// A solve among some choices begins with a known one that is not among them.
TEST(BruteForce, WhatIsKnownIsLookedAt) {
  const Opened o(mlp(1024, 512, 2048, 512), "x=8");
  PlannerOptions options;
  const Stopwatch clock;
  PlannerStats stats;
  std::vector<int> best;
  const solver::Solution all =
      LazySolver(o.tables, options, clock, stats).run(std::nullopt, {}, best);
  ASSERT_TRUE(all.feasible);
  KeptChoices kept;  // all but the best one of each
  for (size_t d = 0; d < best.size(); ++d) {
    kept.emplace_back();
    for (int c = 0; c < o.formulation.decisions[d].count; ++c)
      if (c != best[d] || o.formulation.decisions[d].count == 1) kept.back().push_back(c);
  }
  LazySolver some(o.tables, options, clock, stats);
  some.look_among(kept);
  std::vector<int> choice;
  const solver::Solution found = some.run(std::nullopt, o.tables.by_class(best), choice);
  ASSERT_TRUE(found.feasible);
  EXPECT_EQ(found.cost, all.cost);
  EXPECT_EQ(choice, best);
}

}  // namespace
}  // namespace cleave::plan
