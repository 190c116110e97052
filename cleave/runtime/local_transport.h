#pragma once

#include <memory>

#include "cleave/ops/collective/transport.h"

namespace cleave {

// All devices live in this process, one thread each. Nothing is copied that can be shared: a
// gathered or reduced array is built once, by all members together, and all get the same one. A
// meeting that can never be complete (a member has left, or every device waits for another) is an
// error at once.
std::unique_ptr<Transport> make_local_transport(int64_t num_devices);

}  // namespace cleave
