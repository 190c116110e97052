#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "cleave/ops/collective/transport.h"

namespace cleave {

// Runs `task` for every device of the list on its own thread, and returns when all have ended. A
// task that throws fails its device in the transport, so that none waits forever; the first
// exception that is not itself a consequence (a TransportError) is thrown again here.
void run_devices(Transport& transport, std::span<const int64_t> devices,
                 const std::function<void(int64_t device)>& task);

}  // namespace cleave
