#pragma once

#include <cstdint>
#include <string_view>

#include "cleave/graph/graph.h"

namespace cleave::analyze {

// What a device holds while it runs a module whose nodes are marked (kernels.h): arguments, of
// which donated ones end with their last use, and values that kernels write, from the kernel that
// writes them to the last one that reads them. A value that is never written takes nothing, but
// what it is computed from is held until the last kernel that computes it.
struct KernelMemory {
  int64_t arguments = 0;
  int64_t peak = 0;  // arguments included
  NodeId peak_at;    // invalid if nothing runs
};
KernelMemory kernel_memory(const Graph& graph, std::string_view entry);

}  // namespace cleave::analyze
