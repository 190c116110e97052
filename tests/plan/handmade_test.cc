#include <gtest/gtest.h>

#include "cleave/plan/heuristic.h"
#include "models.h"

namespace cleave::plan {
namespace {

using namespace test;

struct HandMade {
  const char* name;
  std::vector<std::pair<const char*, const char*>> pins;
};

// The layouts that people write down for a two-layer network: columns then rows, weights sharded
// over everything with the batch, and both at once.
const HandMade kPlans[] = {
    {"megatron",
     {{"x", R"([{"data"}, {}])"},
      {"t", R"([{"data"}, {}])"},
      {"w1", R"([{}, {"model"}])"},
      {"w2", R"([{"model"}, {}])"}}},
    {"fsdp",
     {{"x", R"([{"data", "model"}, {}])"},
      {"t", R"([{"data", "model"}, {}])"},
      {"w1", R"([{"data", "model"}, {}])"},
      {"w2", R"([{"data", "model"}, {}])"}}},
    {"both",
     {{"x", R"([{"data"}, {}])"},
      {"t", R"([{"data"}, {}])"},
      {"w1", R"([{"data"}, {"model"}])"},
      {"w2", R"([{"model"}, {"data"}])"}}},
};

TEST(HandMade, PlansAreNeverDearer) {
  for (const int64_t batch : {256, 4096, 65536})
    for (const int64_t hidden : {4096, 32768}) {
      const Graph graph = parse_module(mlp_step(batch, 4096, hidden, 4096));
      PlannerOptions options;
      options.mesh = std::make_shared<const Mesh>(parse_mesh("data=8,model=8"));
      options.profile = &builtin_profile("h100");
      options.objective = Objective::Sum;  // sums are compared
      const PlannerResult best = make_plan(graph, options);
      ASSERT_TRUE(best.plan);
      EXPECT_TRUE(best.plan->bound.proven);
      for (const HandMade& plan : kPlans) {
        PlannerOptions hand = options;
        for (const auto& [name, spec] : plan.pins)
          hand.pins.push_back({name, parse_sharding(spec, options.mesh), name});
        const PlannerResult propagated = plan_by_propagation(graph, hand);
        const PlannerResult searched = make_plan(graph, hand);
        ASSERT_TRUE(propagated.plan && searched.plan) << plan.name;
        const double least = best.plan->totals.seconds * (1 - 1e-9);
        EXPECT_GE(searched.plan->totals.seconds, least) << plan.name;
        EXPECT_GE(propagated.plan->totals.seconds, searched.plan->totals.seconds * (1 - 1e-9))
            << plan.name;
      }
    }
}

}  // namespace
}  // namespace cleave::plan
