#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/analyze/schedule.h"
#include "cleave/models/registry.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/pinned.h"
#include "cleave/plan/planner.h"
#include "cleave/solve/solve.h"
#include "models.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

using namespace test;

constexpr const char* kModels[] = {
    "model:gpt?layers=2&d=512&batch=16&length=512&hidden=2048&vocab=8192&step=train",
    "model:mlp?d=2048&hidden=8192&batch=4096&step=train",
    "model:moe?d=512&batch=16&length=512&step=train",
};

// What the planner finds out about a choice is what the Program of the plan is laid out as.
TEST(Overlap, TheStepIsTheScheduleOfTheProgram) {
  for (const char* model : kModels)
    for (const char* mesh : {"x=8", "data=2,model=4", "data=4,model=8"}) {
      const Graph graph = models::build_model(model).graph;
      for (const bool overlap : {true, false}) {
        PlannerOptions options = options_for(mesh);
        if (!overlap) options.objective = Objective::Sum;
        const PlannerResult result = make_plan(graph, options);
        ASSERT_TRUE(result.plan) << model << " " << mesh;
        const PlanTotals& totals = result.plan->totals;
        const Program program = partition_planned(*result.plan, graph, *options.profile);
        const analyze::Schedule laid = analyze::schedule(program, *options.profile);
        EXPECT_NEAR(totals.step_seconds, laid.seconds, 1e-9 * laid.seconds) << model << " " << mesh;
        EXPECT_NEAR(totals.exposed_seconds, laid.exposed, 1e-9 * laid.seconds) << model << mesh;
        EXPECT_NEAR(totals.communication_seconds, laid.communication(), 1e-9 * laid.seconds);
        EXPECT_LE(totals.step_seconds, totals.seconds * (1 + 1e-9));
        EXPECT_GE(totals.step_seconds, totals.compute_seconds * (1 - 1e-9));
        EXPECT_LE(result.plan->bound.step_bound, totals.step_seconds);
      }
    }
}

TEST(Overlap, LoopsAndBranchesAreLaidOutAsInTheProgram) {
  const Graph graph = parse_module(loop(5, 4096, 1024));
  PlannerOptions options = options_for("x=8", {"w=[{\"x\"}, {}]", "x=[{\"x\"}, {}]"});
  const Plan plan = *make_plan(graph, options).plan;
  const Program program = partition_planned(plan, graph, *options.profile);
  const double length = analyze::schedule(program, *options.profile).seconds;
  EXPECT_NEAR(plan.totals.step_seconds, length, 1e-9 * length);
}

// The plan with the least sum is where the search for a short schedule begins.
TEST(Overlap, StepsAreNoLongerThanWithoutTheRounds) {
  for (const char* model : kModels)
    for (const char* mesh : {"data=2,model=4", "data=16,model=8"}) {
      const Graph graph = models::build_model(model).graph;
      PlannerOptions options = options_for(mesh);
      const Plan overlapped = *make_plan(graph, options).plan;
      options.objective = Objective::Sum;
      const Plan sum = *make_plan(graph, options).plan;
      EXPECT_LE(overlapped.totals.step_seconds, sum.totals.step_seconds * (1 + 1e-9));
      EXPECT_GE(overlapped.totals.seconds, sum.bound.lower_bound * (1 - 1e-9));
      // A bound for one is a bound for all.
      EXPECT_LE(overlapped.bound.step_bound, sum.totals.step_seconds * (1 + 1e-9));
    }
}

// Whatever plan there is: the least sum, one by seeds, data parallel, with and without slow
// kernels, and with parameters that are prepared on another stream.
TEST(Overlap, NoPlanIsBelowTheBoundOfTheStep) {
  for (const char* executor : {"xla-gpu", "inductor"})
    for (const double slowdown : {0.0, 0.3})
      for (const char* model : kModels)
        for (const char* mesh : {"x=8", "data=4,model=8"}) {
          MachineProfile machine = builtin_profile("h100");
          machine.executor = builtin_executor(executor);
          machine.executor.overlap_slowdown = slowdown;
          const Graph graph = models::build_model(model).graph;
          PlannerOptions options = options_for(mesh);
          options.profile = &machine;
          const Plan best = *make_plan(graph, options).plan;
          ASSERT_FALSE(best.bound.alike);
          std::vector<Plan> others{*plan_by_heuristic(graph, options).plan,
                                   *plan_by_propagation(graph, options).plan};
          options.objective = Objective::Sum;
          others.push_back(*make_plan(graph, options).plan);
          for (const Plan& other : others)
            EXPECT_LE(best.bound.step_bound, other.totals.step_seconds * (1 + 1e-9))
                << executor << " " << slowdown << " " << model << " " << mesh;
          EXPECT_LE(best.totals.step_seconds, others.back().totals.step_seconds * (1 + 1e-9));
        }
}

TEST(Overlap, TheResultDoesNotDependOnThreads) {
  const Graph graph = models::build_model(kModels[0]).graph;
  PlannerOptions options = options_for("data=4,model=8");
  options.effort = solver::default_effort(10);
  options.time_limit = 600;  // the effort decides, also on a busy machine
  options.threads = 1;
  const Plan one = *make_plan(graph, options).plan;
  for (int threads : {2, 5}) {
    options.threads = threads;
    const Plan other = *make_plan(graph, options).plan;
    EXPECT_TRUE(diff(one, other).empty()) << threads;
    EXPECT_EQ(one.totals, other.totals) << threads;
    EXPECT_EQ(one.bound, other.bound) << threads;
  }
}

TEST(Overlap, AnExecutorThatDoesNotOverlapHasTheSum) {
  MachineProfile machine = builtin_profile("h100");
  machine.executor.overlaps = false;
  PlannerOptions options = options_for("data=2,model=4");
  options.profile = &machine;
  const Plan plan = *make_plan(models::build_model(kModels[0]).graph, options).plan;
  EXPECT_EQ(plan.totals.step_seconds, plan.totals.seconds);
  EXPECT_EQ(plan.bound.step_bound, plan.bound.lower_bound);
  EXPECT_EQ(plan.bound.step_gap, plan.bound.gap);
  EXPECT_THAT(step_text(plan), testing::Not(testing::HasSubstr("exposed")));
}

// Weights that are gathered ahead of their use cost next to nothing, sums in the middle of a layer
// cost all they take: what is best as a sum need not be what is best.
TEST(Overlap, TextsSayWhatIsExposed) {
  const Plan plan =
      *make_plan(models::build_model(kModels[0]).graph, options_for("data=2,model=4")).plan;
  const std::string text = step_text(plan);
  EXPECT_THAT(text, testing::HasSubstr(" communication of which "));
  EXPECT_THAT(text, testing::HasSubstr("without overlap "));
}

}  // namespace
}  // namespace cleave::plan
