#pragma once

#include <string_view>

#include "cleave/plan/planner.h"

namespace cleave::plan {

// By the name of a solver: "cleave", "mip" (small problems), "heuristic" (seeds and propagation) or
// "propagation" (pins and annotations alone). Throws UserError that lists them.
PlannerResult plan_by(std::string_view solver, const Graph& graph, PlannerOptions options);

}  // namespace cleave::plan
