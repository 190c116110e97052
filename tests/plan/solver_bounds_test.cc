#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "cleave/core/error.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
#include "models.h"
#include "random_module.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

using namespace test;

struct Solved {
  std::string solver;
  Plan plan;
};

// What every solver makes of it; those that find nothing are left out.
std::vector<Solved> solve_all(const Graph& graph, PlannerOptions options, bool with_mip) {
  std::vector<Solved> all;
  auto add = [&](const char* solver, PlannerResult result) {
    if (result.plan) all.push_back({solver, std::move(*result.plan)});
  };
  add("cleave", make_plan(graph, options));
  add("propagation", plan_by_propagation(graph, options));
  add("heuristic", plan_by_heuristic(graph, options));
  options.solver = PlanSolver::Mip;
  options.time_limit = 2;
  if (with_mip) add("mip", make_plan(graph, options));
  return all;
}

void expect_bounds_to_hold(const std::vector<Solved>& all, const std::string& what) {
  for (const Solved& a : all)
    for (const Solved& b : all) {
      EXPECT_GE(a.plan.totals.seconds, b.plan.bound.lower_bound * (1 - 1e-9) - 1e-12)
          << a.solver << " is below the bound of " << b.solver << "\n"
          << what;
    }
}

// Some matrices are split by rows or by columns.
std::vector<Pin> random_pins(const Plan& plan, const MeshPtr& mesh, int seed) {
  std::mt19937_64 random(seed);
  std::vector<Pin> pins;
  for (const PlannedValue& value : plan.values) {
    if (!value.spec.mesh || value.spec.rank() != 2 || random() % 3) continue;
    const char* spec = std::vector<const char*>{"[{\"x\"}, {}]", "[{}, {\"x\"}]", "[{}, {}]",
                                                "[{\"x\"}, {?}]"}[random() % 4];
    pins.push_back(parse_pin(value.name + "=" + spec, mesh));
  }
  return pins;
}

// No plan of any solver is below the bound of another one.
TEST(SolverBounds, HoldForTheOtherSolvers) {
  const char* rounds = std::getenv("CLEAVE_TEST_ROUNDS");  // for longer sweeps by hand
  const int last = rounds ? std::atoi(rounds) : 12;
  for (int seed = 0; seed < last; ++seed) {
    const char* mesh = std::vector<const char*>{"x=2", "x=4", "x=2,y=2", "x=3"}[seed % 4];
    const std::string text = RandomModule(seed).text(3 + seed % 6);
    const std::string what = fmt::format("seed {} on {}\n{}", seed, mesh, text);
    const Graph graph = parse_module(text);
    PlannerOptions options = options_for(mesh);
    std::string pins;
    const std::vector<Solved> all = solve_all(graph, options, seed % 3 == 0);
    ASSERT_GE(all.size(), 3u) << what;
    expect_bounds_to_hold(all, what);
    // Pins leave fewer plans: none of them is below a bound for all, nor below one for the pins.
    PlannerOptions pinned = options;
    pinned.pins = random_pins(all[0].plan, pinned.mesh, seed);
    std::vector<Solved> with_pins = solve_all(graph, pinned, false);
    for (const Pin& pin : pinned.pins) pins += pin.text + "\n";
    expect_bounds_to_hold(with_pins, what + pins);
    with_pins.push_back(all[0]);
    for (const Solved& solved : with_pins)
      EXPECT_GE(solved.plan.totals.seconds, all[0].plan.bound.lower_bound * (1 - 1e-9) - 1e-12)
          << solved.solver << " with pins\n"
          << what << pins;
    // Within what the cheapest one holds, and a little less.
    options.memory = all[0].plan.memory.peak * 9 / 10;
    expect_bounds_to_hold(solve_all(graph, options, false), what + "within 90% of the memory");
  }
}

// Every plan is the module, and costs and communicates what it says.
TEST(SolverBounds, PlansOfAllSolversAreVerified) {
  const char* rounds = std::getenv("CLEAVE_TEST_ROUNDS");
  const int last = rounds ? std::atoi(rounds) : 8;
  for (int seed = 100; seed < 100 + last; ++seed) {
    const char* mesh = std::vector<const char*>{"x=2", "x=2,y=2", "x=3"}[seed % 3];
    const std::string text = RandomModule(seed).text(3 + seed % 6);
    const Graph graph = parse_module(text);
    VerifyPlanOptions how;
    how.most_flops = 1e6;
    how.most_bytes = 1e5;
    for (const Solved& solved : solve_all(graph, options_for(mesh), false)) {
      const PlanVerification v = verify_plan(solved.plan, graph, builtin_profile("h100"), how);
      EXPECT_TRUE(v.good()) << solved.solver << ", seed " << seed << " on " << mesh << "\n"
                            << text << to_string(v);
    }
  }
}

constexpr const char* kDead = R"(
  func.func @main(%x: tensor<4096x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
    %0 = stablehlo.tanh %x : tensor<4096x4096xf32>
    %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %2 = stablehlo.exponential %1 : tensor<4096x4096xf32>
    return %0 : tensor<4096x4096xf32>
  })";

TEST(SolverBounds, DeadCodeCostsNothing) {
  const Graph graph = parse_module(kDead);
  for (const Solved& solved : solve_all(graph, options_for("x=2"), true)) {
    EXPECT_EQ(solved.plan.find_op("dot_general.0"), nullptr) << solved.solver;
    EXPECT_EQ(solved.plan.find_op("exponential.0"), nullptr) << solved.solver;
    EXPECT_NE(solved.plan.find_op("tanh.0"), nullptr) << solved.solver;
    const PlanVerification v = verify_plan(solved.plan, graph, builtin_profile("h100"));
    EXPECT_TRUE(v.good()) << solved.solver << "\n" << to_string(v);
  }
}

// What searches nothing proves nothing, in words and in the file.
TEST(SolverBounds, GivenLayoutsClaimNoBound) {
  const Graph graph = parse_module(mlp(4096, 4096, 4096, 4096));
  for (const Solved& solved : solve_all(graph, options_for("x=2"), false)) {
    const bool searches = solved.solver == "cleave";
    EXPECT_EQ(solved.plan.bound.exists, searches);
    const std::string text = to_string(solved.plan.bound, "1 us");
    EXPECT_THAT(text, testing::HasSubstr(searches ? "at least" : "gives no bound"));
    const std::string json = to_json(solved.plan);
    EXPECT_EQ(json.find("\"lower_bound\": null") == std::string::npos, searches);
    EXPECT_EQ(plan_from_json(json).bound, solved.plan.bound);
  }
}

// Two arguments that only what is fixed tells apart are not one decision.
TEST(SolverBounds, FixedUsersTellDecisionsApart) {
  const Graph graph = parse_module(R"(
    sdy.mesh @mesh = <["x"=2]>
    func.func @main(%a: tensor<4096x4096xf32>, %b: tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>, tensor<4096x4096xf32>) {
      %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<4096x4096xf32>
      %1 = sdy.sharding_constraint %b <@mesh, [{}, {"x"}]> : tensor<4096x4096xf32>
      return %0, %1 : tensor<4096x4096xf32>, tensor<4096x4096xf32>
    })");
  const Plan plan = *make_plan(graph, options_for("x=2")).plan;
  EXPECT_EQ(plan.totals.seconds, plan.find_op("return")->seconds);  // nothing but the host's part
}

}  // namespace
}  // namespace cleave::plan
