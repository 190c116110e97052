#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/spmd/planned_marks.h"

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
  double works = 0;            // how often it is computed in kernels that arithmetic limits; on a
                               // host, as a loop of a kernel
  bool is_library = false;     // a product or another op with a kernel of its own, priced as that
  double attention = 0;        // what a kernel of attention computes of this product, as a share
  bool is_backward = false;    // of such a product: in the kernel of the derivative
  double least_us = 0;         // that it takes because the device waits for the host
  double workspace = 0;        // bytes that its kernel holds beside operands and results
  bool reorders = false;       // a gradient that the library has in another order than the program
  double gaps = 1;             // products that a library computes for one that is not with a zero
  bool is_early = false;       // a product that runs as soon as its operands are there
  double clamped = -1;         // the operand for which it reads what a clamp has made of it
  // By result that is never in memory: the bytes of the whole module that are moved beside all
  // this if the value has to be there after all, because its layout changes. It is written and
  // read, and what its kernel had read for the rest of it is read again.
  std::vector<double> spills;
  bool operator==(const KernelUse&) const = default;
};

// As an attribute of the node (kKernelAttr), which is copied with it: `cleave.kernel = array<f64:
// ...>`.
std::optional<KernelUse> kernel_use(const Node& node);  // nothing if the node has no mark
bool has_kernel_use(const Node& node);
// Its `writes` of a result, without the rest of it; 1 if the node has no mark.
double kernel_writes(const Node& node, size_t result);
void set_kernel_use(Node& node, const KernelUse& use);
// Marks every node of a flat function and of the regions inside with what the profile's executor
// makes of it. Nothing is marked for an executor without a name.
void mark_kernels(Graph& graph, std::string_view entry, const MachineProfile& profile);
// The same in two steps: what the marks are, by node (none for an executor without a name), and
// marking.
std::vector<KernelUse> find_kernels(const Graph& graph, std::string_view entry,
                                    const MachineProfile& profile);
void set_kernel_uses(Graph& graph, std::string_view entry, const std::vector<KernelUse>& uses);
bool is_marked(const Graph& graph, RegionId body);  // of a function
// Gives kernels the time that the host takes to launch them, if that limits the step: kernels are
// launched while earlier ones run, so that a step takes what the device takes or what the host
// takes, whichever is longer. Of several layouts of a module, the device's time is that of one.
void wait_for_host(const Graph& graph, RegionId body, const MachineProfile& profile,
                   std::vector<KernelUse>& uses);

bool is_donated_argument(const AttrDict& attrs);  // its memory may become a result's
// The kernel writes a part of operand 0, in its place.
bool is_in_place(const Node& node);

// Seconds of a marked node on the shapes that it has.
double kernel_seconds(const Graph& graph, const Node& node, const KernelUse& use,
                      const MachineProfile& profile);
// What resharding a value takes beside the reshard itself, by its entry of `spills` and the layout
// that it is resharded from: nothing if it is in memory anyway.
double spill_seconds(double spill_bytes, const ShardingSpec& from, const MachineProfile& profile);
double spill_bytes(const Graph& graph, ValueId value);  // of the op that makes it
// Of one step, beside its kernels: what the host does to start it and for its arguments.
double step_seconds(const Graph& graph, RegionId body, const MachineProfile& profile);

}  // namespace cleave::analyze
