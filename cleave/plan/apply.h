#pragma once

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"
#include "cleave/spmd/program.h"

namespace cleave::plan {

struct BoundPlan;  // bound_plan.h

// The module with the plan in it: flat (see names.h), `sdy.sharding` on every argument, result and
// op, and an `sdy.reshard` wherever a copy or an operand needs another layout. Each of those is
// made for itself (kSeparateAttr), so that `partition` puts in exactly the plan's collectives.
// Throws UserError if the plan is of another module.
Graph apply(const Plan& plan, const Graph& graph);
Graph apply(const BoundPlan& bound);

// apply and partition, under the machine that the plan was priced for.
Program partition_planned(const Plan& plan, const Graph& graph, const MachineProfile& profile);
Program partition_planned(const BoundPlan& bound, const MachineProfile& profile);

}  // namespace cleave::plan
