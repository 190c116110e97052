#include <gtest/gtest.h>

#include "cleave/models/registry.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/mesh_search.h"
#include "cleave/plan/verify_plan.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

MeshCandidate candidate(const MeshPtr& mesh, int64_t limit, double seconds, double bound) {
  MeshCandidate c{mesh, limit, {}};
  if (seconds == 0) return c;
  c.result.plan.emplace();
  c.result.plan->totals.seconds = seconds;
  c.result.plan->totals.step_seconds = seconds;
  c.result.plan->bound.lower_bound = bound;
  c.result.plan->bound.gap = 1 - bound / seconds;
  c.result.plan->memory.limit = c.result.plan->memory.peak = limit;
  return c;
}

TEST(Limits, ALargerLimitNeverGetsADearerPlan) {
  const MeshPtr mesh = options_for("x=2").mesh, other = options_for("x=4").mesh;
  std::vector<MeshCandidate> all{candidate(mesh, 40, 12, 9), candidate(mesh, 36, 10, 8),
                                 candidate(mesh, 30, 0, 0), candidate(mesh, 50, 0, 0),
                                 candidate(other, 60, 20, 20)};
  share_between_limits(all);
  EXPECT_EQ(all[0].result.plan->totals.seconds, 10);
  EXPECT_EQ(all[0].result.plan->bound.lower_bound, 9);
  EXPECT_EQ(all[0].result.plan->memory.limit, 40);
  EXPECT_NEAR(all[0].result.plan->bound.gap, 0.1, 1e-12);
  EXPECT_EQ(all[1].result.plan->bound.lower_bound, 9);  // of the larger limit
  EXPECT_FALSE(all[2].result.plan);
  ASSERT_TRUE(all[3].result.plan);
  EXPECT_EQ(all[3].result.plan->totals.seconds, 10);
  EXPECT_EQ(all[3].result.plan->bound.lower_bound, 0);
  EXPECT_EQ(all[4].result.plan->totals.seconds, 20);
}

TEST(Limits, APlanForALargerLimitServesIfItFits) {
  const MeshPtr mesh = options_for("x=2").mesh;
  std::vector<MeshCandidate> all{candidate(mesh, 40, 12, 9), candidate(mesh, 50, 10, 9),
                                 candidate(mesh, 60, 8, 7)};
  all[1].result.plan->memory.peak = 39;
  share_between_limits(all);
  EXPECT_EQ(all[0].result.plan->totals.seconds, 10);
  EXPECT_EQ(all[0].result.plan->memory.limit, 40);
  EXPECT_EQ(all[1].result.plan->totals.seconds, 10);  // the third holds 60
}

TEST(Limits, OfASmallModelAreMonotone) {
  const Graph graph = models::build_model("model:resnet?step=train").graph;
  PlannerOptions options = options_for("x=2,y=2");
  options.time_limit = 0.5;
  std::vector<int64_t> limits;
  for (int64_t kib : {3000, 3800, 5000}) limits.push_back(kib << 10);
  const auto found = search_meshes(graph, {options.mesh}, limits, options);
  ASSERT_EQ(found.size(), limits.size());
  for (size_t i = 1; i < found.size(); ++i) {
    if (!found[i - 1].result.plan) continue;
    ASSERT_TRUE(found[i].result.plan) << i;
    EXPECT_LE(found[i].result.plan->totals.seconds, found[i - 1].result.plan->totals.seconds) << i;
  }
}

// The heuristic seeds only what runs without elements of neighbours.
TEST(Limits, HeuristicPlansOfConvolutions) {
  for (const char* name : {"model:resnet", "model:unet"}) {
    const Graph graph = models::build_model(name).graph;
    const PlannerOptions options = options_for("x=2");
    const PlannerResult result = plan_by_heuristic(graph, options);
    ASSERT_TRUE(result.plan);
    const PlanVerification v = verify_plan(*result.plan, graph, *options.profile);
    EXPECT_TRUE(v.good()) << name << "\n" << to_string(v);
  }
}

}  // namespace
}  // namespace cleave::plan
