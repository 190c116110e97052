#pragma once

#include "cleave/machine/profile.h"

namespace cleave {

// Links between the GPUs of a node: A100, H100 and H200, B200.
enum class NvLink : uint8_t { Third, Fourth, Fifth };

// Collectives as NCCL runs them by default over these links and the profile's network. The numbers
// are fitted to published measurements; docs/guide/machines.md names them.
void set_nccl_collectives(MachineProfile& profile, NvLink links);

}  // namespace cleave
