#pragma once

#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// Of a second of the sum, how many received bytes count as much under Objective::Bytes: so few
// that they only decide between plans that receive nearly the same.
inline constexpr double kBytesOfSecond = 1e7;

// The machine by whose times the cheapest ways are searched. For Bytes it is one with the same
// kernels whose links all have a rate of kBytesOfSecond and no latency, and where nothing overlaps:
// what communication takes is then what it receives. The same machine for the others.
MachineProfile profile_for(MachineProfile profile, Objective objective);

}  // namespace cleave::plan
