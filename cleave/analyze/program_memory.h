#pragma once

#include <string>
#include <vector>

#include "cleave/analyze/memory_classes.h"

namespace cleave::analyze {

// What one device holds while a Program runs, step by step: arguments (those that are not donated
// are held until the end), values from the step that makes them to the one that reads them last,
// and what reshards and kernels hold beside them.
struct ProgramMemory {
  struct Alive {
    std::string what;   // "%arg3", "stablehlo.dot_general", "all_gather \"x\""
    std::string where;  // its location, if one is known
    std::string type;   // as the device holds it
    MemoryClass memory_class = MemoryClass::Activations;
    int64_t bytes = 0;
  };
  int64_t device = 0;
  int64_t peak = 0;
  NodeId peak_at;                 // of program.graph; invalid if nothing runs
  int64_t arguments = 0;          // bytes of all arguments
  BytesByClass at_peak{};         // sums to `peak`
  std::vector<Alive> alive;       // at the peak, the largest first
  std::vector<int64_t> timeline;  // bytes held after each step, in order of execution
};
// On the device at the mesh's first position, which holds the largest shards of all: as the
// executor holds it that the program is marked for (kernel_memory.h), else as virtual devices do.
ProgramMemory program_memory(const Program& program);
// As virtual devices hold it, op by op, which the Executor measures (`MemoryUse`).
// `runs` says for each region of the graph how often it was executed in the run that the prediction
// is compared with. If it is empty, every branch counts.
ProgramMemory program_memory(const Program& program, int64_t device,
                             const std::vector<int64_t>& runs = {});

// The same over time: what is there at which steps, in the form that the program is marked for. At
// every step the buffers that are there and what is inside of the step sum to what is held; the
// most of that is the peak.
struct MemoryHistory {
  struct Step {
    NodeId node;         // of program.graph; invalid: of none
    int64_t held = 0;    // bytes at most while it runs
    int64_t inside = 0;  // of which kernels and regions hold beside what is listed
  };
  struct Buffer {
    NodeId made_by;     // of program.graph; invalid: an argument, or of no node
    int argument = -1;  // its number
    std::string type;   // as the device holds it
    MemoryClass memory_class = MemoryClass::Activations;
    int64_t bytes = 0;
    int64_t first = 0, last = 0;  // steps, both included
  };
  int64_t arguments = 0;
  std::vector<Step> steps;
  std::vector<Buffer> buffers;  // by their first step
};
MemoryHistory memory_history(const Program& program);

//   peak 1.21 GiB at stablehlo.dot_general loc(...)
//     parameters        512.0 MiB   41%
//     ...
//   alive there:
//     128.0 MiB  parameters       %arg0                 tensor<...>
std::string to_string(const ProgramMemory& memory, const Program& program, size_t num_alive = 10);

}  // namespace cleave::analyze
