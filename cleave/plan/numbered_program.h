#pragma once

#include <vector>

#include "cleave/machine/profile.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/spmd/program.h"

namespace cleave::plan {

// A change of layout that the plan asks for: one for each copy, then one for each operand that is
// resharded for its op alone.
struct PlannedChange {
  BoundSource source;
  ShardingSpec to;
  int copy = -1;  // in Plan::copies
  int op = -1;    // in Plan::ops: of an operand, its op; of a copy, the op before which it is made
  int operand = -1;
  double times = 1;  // a step
};
std::vector<PlannedChange> planned_changes(const BoundPlan& bound);

// partition_planned, and every node of the program says by kOpAttr of which op of the plan it is,
// and by kChangeAttr of which of its changes (spmd/planned_marks.h).
Program partition_numbered(const BoundPlan& bound, const MachineProfile& profile);

}  // namespace cleave::plan
