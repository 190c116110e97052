#pragma once

#include "cleave/compile/executable.h"
#include "cleave/machine/profile.h"

namespace cleave::analyze {

// What a step takes as the compiler runs it. `program_cost` prices every op of the Program by
// itself; this prices the steps that the compiler makes of the ops, which are simplified, and of
// which elementwise ops and reductions are fused into passes that read and write memory once.
// Changes of layout cost the same in both.
struct CompiledCost {
  double compute_seconds = 0;
  double transfer_seconds = 0;
  double seconds() const { return compute_seconds + transfer_seconds; }
};
// Devices that share cores (MachineProfile::concurrent_devices) are all taken to be busy.
CompiledCost compiled_cost(const Executable& executable, const MachineProfile& profile);

// The time of one pass over memory: that of what enters and leaves it, or, if that is more, the
// work of its members on what the cache holds.
double fusion_seconds(const Graph& graph, const Node& fusion, const MachineProfile& profile);

}  // namespace cleave::analyze
