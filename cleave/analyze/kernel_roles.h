#pragma once

#include <cstdint>

#include "cleave/graph/graph.h"
#include "cleave/machine/executor_profile.h"

namespace cleave::analyze {

// What an op is to a compiler that fuses.
enum class Role : uint8_t {
  Known,    // a constant: written into the kernels that use it
  View,     // other names for the same bytes
  Inside,   // can be computed in the kernel of whatever uses it
  Reduce,   // ends a kernel; a reduction of rows may be inside
  Library,  // products and convolutions: operands and results in memory
  Own,      // a kernel or several of its own: operands and results in memory
  Mixing,   // a product of a kernel of attention
  Hidden,   // inside a kernel of attention
  End,
};

Role kernel_role(const Graph& graph, const Node& node, const ExecutorProfile& executor);

}  // namespace cleave::analyze
