#pragma once

#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"
#include "cleave/reshard/reshard.h"

namespace cleave::plan {

// What an op takes whose layouts are not the planner's to choose.
struct FixedCost {
  double compute_seconds = 0;
  std::vector<CollectiveTotal> collectives;  // of one execution
  int64_t bytes = 0;                         // held beside its operands and results

  double seconds() const;
};

// One execution of an sdy.manual_computation: its body on the shapes of a device, with the
// collectives that the user wrote and the changes of layout along axes that are free inside. It is
// what the partitioner makes of the op, priced as programs are. `trips`: of loops inside whose
// number of trips is not known.
FixedCost manual_cost(const Graph& graph, NodeId manual, const MeshPtr& mesh,
                      const MachineProfile& profile, const ReshardOptions& reshard, int64_t trips);

}  // namespace cleave::plan
