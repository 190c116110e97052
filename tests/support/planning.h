#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
#include "tests/support/mesh_of.h"

namespace cleave::plan {

// Planning for H100s: options_for("x=2,y=2", {"arg0=[{\"x\"}, {?}]"})
inline PlannerOptions options_for(const char* mesh, const std::vector<std::string>& pins = {}) {
  PlannerOptions options;
  options.mesh = mesh_of(mesh);
  options.profile = &builtin_profile("h100");
  for (const std::string& pin : pins) options.pins.push_back(parse_pin(pin, options.mesh));
  return options;
}

// Plans with each of the three planners, and verifies what they give by running it.
inline void expect_verified_plans(const Graph& graph, const PlannerOptions& options) {
  for (const PlannerResult& result :
       {make_plan(graph, options), plan_by_propagation(graph, options),
        plan_by_heuristic(graph, options)}) {
    ASSERT_TRUE(result.plan);
    const PlanVerification v = verify_plan(*result.plan, graph, *options.profile);
    EXPECT_TRUE(v.good()) << result.plan->bound.solver << "\n" << to_string(v);
  }
}

}  // namespace cleave::plan
