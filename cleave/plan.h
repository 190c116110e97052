#pragma once

// The best shardings of a module, with a bound: planning, plan files, explanation, verification.
//
//   plan::PlannerResult result =
//       plan::make_plan(graph, {.mesh = mesh, .profile = &builtin_profile("h100")});
//   if (result.plan) Executable(plan::partition_planned(*result.plan, graph, profile)).run(args);
#include "cleave/machine/profile.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/plan/export.h"
#include "cleave/plan/figures.h"
#include "cleave/plan/op_costs.h"
#include "cleave/plan/pins.h"
#include "cleave/plan/plan.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
