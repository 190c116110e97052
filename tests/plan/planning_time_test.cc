#include <gtest/gtest.h>

#include <set>

#include "cleave/graph/text/text.h"
#include "cleave/plan/mesh_search.h"
#include "cleave/plan/planner.h"
#include "models.h"

namespace cleave::plan {
namespace {

using namespace test;

PlannerOptions options_for(const char* mesh) {
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh(mesh));
  options.profile = &builtin_profile("h100");
  options.objective = Objective::Sum;  // sums are compared
  options.memory = int64_t{80} << 30;
  return options;
}

// However little time there is, a plan comes back, with a bound that holds.
TEST(PlanningTime, TheCapCutsWithAValidPlanAndBound) {
  const Graph graph = parse_module(deep(12, 4096, 8192));
  for (bool apart : {false, true}) {
    PlannerOptions options = options_for("data=2,fsdp=4,model=4");
    options.apart = apart;
    options.time_limit = 60;
    const PlannerResult whole = make_plan(graph, options);
    ASSERT_TRUE(whole.plan) << whole.reason;
    EXPECT_FALSE(whole.plan->bound.cut);
    options.time_limit = 1e-6;
    const PlannerResult cut = make_plan(graph, options);
    ASSERT_TRUE(cut.plan) << cut.reason;
    EXPECT_TRUE(cut.plan->bound.cut || cut.plan->bound.proven);
    EXPECT_GT(cut.plan->bound.lower_bound, 0);
    EXPECT_LE(cut.plan->bound.lower_bound, whole.plan->totals.seconds * (1 + 1e-9));
    EXPECT_GE(cut.plan->totals.seconds, whole.plan->bound.lower_bound * (1 - 1e-9));
    EXPECT_LE(cut.stats.solves, whole.stats.solves);
  }
}

TEST(PlanningTime, ThreadsChangeNothing) {
  const Graph graph = parse_module(deep(6, 4096, 8192));
  PlannerOptions options = options_for("data=2,fsdp=4,model=4");
  options.threads = 1;
  const PlannerResult one = make_plan(graph, options);
  options.threads = 3;
  const PlannerResult three = make_plan(graph, options);
  ASSERT_TRUE(one.plan && three.plan);
  EXPECT_EQ(to_json(*one.plan), to_json(*three.plan));
}

TEST(PlanningTime, MeshesSideBySideAreAsOneByOne) {
  const Graph graph = parse_module(mlp(8192, 4096, 4096, 4096));
  const std::vector<MeshPtr> meshes = mesh_shapes(16, 3);
  const std::vector<int64_t> limits = {int64_t{200} << 20, int64_t{1} << 30};
  PlannerOptions options = options_for("x=16");
  std::set<size_t> heard;
  options.threads = 3;
  const auto together = search_meshes(graph, meshes, limits, options,
                                      [&](const MeshCandidate& c, size_t done, size_t all) {
                                        EXPECT_EQ(all, meshes.size() * limits.size());
                                        EXPECT_TRUE(c.mesh);
                                        heard.insert(done);
                                      });
  EXPECT_EQ(heard.size(), meshes.size() * limits.size());
  ASSERT_EQ(together.size(), meshes.size() * limits.size());
  for (size_t i = 0; i < together.size(); ++i) {
    options.mesh = meshes[i / limits.size()];
    options.memory = limits[i % limits.size()];
    const PlannerResult alone = make_plan(graph, options);
    ASSERT_EQ(alone.plan.has_value(), together[i].result.plan.has_value());
    if (!alone.plan) continue;
    EXPECT_EQ(to_json(*alone.plan), to_json(*together[i].result.plan));
  }
}

}  // namespace
}  // namespace cleave::plan
