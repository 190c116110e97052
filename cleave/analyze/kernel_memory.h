#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/spmd/program.h"

namespace cleave::analyze {

// What a device holds while it runs a program whose nodes are marked (kernels.h): arguments, of
// which donated ones end with their last use, and values that kernels write, from the kernel that
// writes them to the last one that reads them. A value that is never written takes nothing, but
// what it is computed from is held until the last kernel that computes it.
struct KernelMemory {
  struct Held {
    NodeId made_by;     // invalid: an argument
    size_t number = 0;  // of the argument, or of the result
    int64_t bytes = 0;
  };
  int64_t arguments = 0;
  int64_t peak = 0;               // arguments included
  NodeId peak_at;                 // invalid if nothing runs
  std::vector<Held> alive;        // at the peak, the largest first
  int64_t inside = 0;             // at the peak: what regions of the op there hold
  std::vector<int64_t> timeline;  // bytes held after each node of the entry

  // What is there when, by the places of nodes in the entry, both included: at each node the sum of
  // what is there is that of the timeline.
  struct Buffer {
    Held held;
    int64_t first = 0, last = 0;
  };
  std::vector<Buffer> buffers;
  std::vector<int64_t> inside_at;  // by node: what regions and the kernel hold beside that
};
KernelMemory kernel_memory(const Program& program, const Instance& instance);

// Whether the result is what the loop was given: its body reads the carry and returns it as it is.
bool is_passed_on(const Graph& graph, const Node& node, size_t number);
// The values in memory of those results of a function that take no donated argument's place.
std::vector<ValueId> results_apart(const Graph& graph, const Function& function);
// Buffers that are filled with one number before they are written in place: by value, the op at
// which a compiler fills them, together with the first of that type. Carries of loops that start as
// zeros are such buffers, and what the gradient of a maximum over windows goes to.
std::vector<std::pair<ValueId, NodeId>> filled_early(const Graph& graph, RegionId body);
// Donated arguments that an optimizer keeps for kernels of convolutions: the library has them in
// another order, and they are copied into it before all.
std::vector<ValueId> reordered_arguments(const Graph& graph, const Function& function);
// What the kernel of a marked node holds beside operands and results, on one of so many devices.
int64_t workspace_bytes(const Node& node, int64_t devices);

}  // namespace cleave::analyze
