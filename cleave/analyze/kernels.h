#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/executor.h"

namespace cleave::analyze {

// What an executor makes of a module's ops: which values it writes to memory, and what each op adds
// to the kernels that it becomes part of. Passes over memory are counted in bytes of the op's own
// operands and results, so that the same counts hold for the parts of a device:
//
//   seconds = launches * launch + works * work
//             + (sum of reads[i] * bytes of operand i + writes[j] * bytes of result j) / bandwidth
//
//   y = exp(x); z = y * 2 (returned)      exp: reads {1}, writes {0};  multiply: reads {0, 0},
//                                         writes {1}, launches 1
struct KernelUse {
  std::vector<double> reads;   // by operand: passes over it, slower ones counted as more
  std::vector<double> writes;  // by result: 0 if the value is never in memory
  double launches = 0;         // kernels that end with this op
  double works = 0;            // how often it is computed in kernels that arithmetic limits
  bool is_library = false;     // a product or convolution, priced by its own model
  bool operator==(const KernelUse&) const = default;
};

// As an attribute of the node, which is copied with it: `cleave.kernel = array<f64: ...>`.
inline constexpr std::string_view kKernelAttr = "cleave.kernel";
std::optional<KernelUse> kernel_use(const Node& node);  // nothing if the node has no mark
// Marks every node of a function and of the regions inside; `entry` must be flat.
void mark_kernels(Graph& graph, std::string_view entry, const Executor& executor);
void unmark_kernels(Graph& graph);

}  // namespace cleave::analyze
