#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cleave/models/registry.h"
#include "cleave/plan/planner.h"

namespace cleave::plan {
namespace {

// Plans made by themselves, one limit at a time, by work and not by the clock: a larger limit never
// gets a dearer plan, nor none.
void expect_monotone(const std::string& model, const char* mesh, const std::vector<double>& parts,
                     uint64_t effort) {
  const Graph graph = models::build_model(model).graph;
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh(mesh));
  options.profile = &builtin_profile("h100");
  options.objective = Objective::Sum;  // sums are compared
  options.time_limit = 3600;
  options.effort = effort;
  const PlannerResult free = make_plan(graph, options);
  ASSERT_TRUE(free.plan);
  const double least = static_cast<double>(free.least_memory);
  const double most = static_cast<double>(free.plan->memory.peak);
  double before = 0;
  for (double part : parts) {
    options.memory = static_cast<int64_t>(least + part * (most - least));
    const PlannerResult result = make_plan(graph, options);
    const std::string where = fmt::format("{} on {} within {}", model, mesh, *options.memory);
    if (!result.plan) {
      EXPECT_EQ(before, 0) << where << ": no plan, though a smaller limit has one";
      continue;
    }
    const double seconds = result.plan->totals.seconds;
    EXPECT_LE(result.plan->memory.peak, *options.memory);
    EXPECT_LE(result.plan->bound.lower_bound, seconds);
    EXPECT_GE(seconds, free.plan->bound.lower_bound * (1 - 1e-9)) << where;
    EXPECT_TRUE(before == 0 || seconds <= before * (1 + 1e-9)) << where;
    before = seconds;
  }
}

// Where memory hardly matters any more, and limits are close to each other: any of the plans would
// do for all, and which one a search finds is luck.
TEST(SeparateLimits, OfResnetAreMonotone) {
  expect_monotone("model:resnet?step=train&blocks=1,1", "x=2,y=2", {0.2, 0.55, 0.6, 0.65}, 1000);
}

TEST(SeparateLimits, OfAUnetAreMonotone) {
  expect_monotone("model:unet", "x=4", {0, 0.5, 0.6, 0.9}, 300);
}

}  // namespace
}  // namespace cleave::plan
