#pragma once

#include "cleave/machine/profile.h"

namespace cleave {

// The same machine if arithmetic, or access to memory, took no time: what a kernel then takes shows
// what limits it. Launches stay, and so do collectives.
//
//   op_seconds(cost, dtype, without_arithmetic(without_memory(profile)))     launches alone
MachineProfile without_arithmetic(MachineProfile profile);
MachineProfile without_memory(MachineProfile profile);

}  // namespace cleave
