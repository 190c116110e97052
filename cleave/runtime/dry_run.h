#pragma once

#include <vector>

#include "cleave/runtime/memory_meter.h"
#include "cleave/spmd/program.h"

namespace cleave {

// What one device holds while its part of a program runs, known without running it: its schedule is
// walked with arrays that have shapes and strides but no elements, and the meter of a real run
// counts them. Views, buffers that are used again and packed operands are what they would be.
// Bodies of loops are walked up to three times, and every branch once; if it is known how often a
// run went through a region, no more often than that.
struct DryRun {
  // A buffer that is alive when the device holds most.
  struct Alive {
    NodeId made_by;      // of the device's graph; invalid: an argument
    uint32_t index = 0;  // of the argument
    int64_t bytes = 0;
  };
  int64_t peak = 0;
  NodeId peak_at;                 // the node of the device's graph
  int64_t arguments = 0;          // bytes of all arguments
  int64_t kernel_bytes = 0;       // at the peak: what the kernel holds beside operands and results
  std::vector<Alive> alive;       // at the peak, the largest first
  std::vector<int64_t> timeline;  // bytes held after each step, in order of execution

  // If it is asked for: what each step reached, and what was there when.
  struct Step {
    NodeId node;          // of the device's graph
    int64_t reached = 0;  // bytes held at most, what the kernel takes for itself included
  };
  struct Buffer {
    Alive what;
    int64_t first = 0, last = 0;  // steps, both included
  };
  std::vector<Step> steps;
  std::vector<Buffer> buffers;  // what they take at a step is no more than what it reached
};

// `instance` is that of `device`, and need not have the plans of its transfers
// (`instantiate_shapes`). `runs`: by region of the program's graph, how often it ran; empty: it is
// not known.
DryRun dry_run(const Program& program, const Instance& instance, int64_t device,
               const std::vector<int64_t>& runs = {}, bool with_history = false);

}  // namespace cleave
