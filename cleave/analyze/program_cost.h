#pragma once

#include <array>
#include <string>
#include <vector>

#include "cleave/machine/profile.h"
#include "cleave/spmd/program.h"

namespace cleave::analyze {

// Seconds of one execution of a node on one device: what it adds to the kernels that the executor
// makes of the program (kernels.h), or, if the node has no mark, the roofline of its work on the
// shapes that it has. Collectives are not counted.
double node_seconds(const Graph& graph, const Node& node, const MachineProfile& profile);
// Whether a node of a device's program is what a marked op becomes there beside itself, such as the
// mask of its padding: it is part of the op's kernel.
bool is_inside_kernel(const Program& program, const Instance& instance, NodeId id);
// Seconds of a node of a device's program.
double node_seconds(const Program& program, const Instance& instance, NodeId id,
                    const MachineProfile& profile);

// One change of layout: a step of a reshard costs what the reshard search took it to cost
// (`make_step`), a halo what a permute of the elements from neighbours costs.
struct TransferCost {
  std::string kind;   // "all_gather", ..., "halo"; "all_slice" and the like are local
  std::string axes;   // "x", "y":(1)2
  int64_t bytes = 0;  // received by one device, at most
  double seconds = 0;
  int64_t nodes = 1;  // of the machine, that one of its groups spans
};
TransferCost transfer_cost(const Program& program, NodeId transfer, const MachineProfile& profile);

// A node of the Program with all its executions: those of a loop's body count once per trip, those
// of a function once per call.
struct NodeCost {
  NodeId node;  // of program.graph
  double executions = 1;
  double seconds = 0;        // of all executions
  double spill_seconds = 0;  // of which: what a transfer takes because it breaks a kernel
  bool is_transfer = false;
  KernelClass kernel = KernelClass::Elementwise;  // of the dearest part, if it computes
  TransferCost transfer;                          // of one execution, if it is a transfer
};

// All transfers of one kind along the same axes.
struct CollectiveCostSum {
  std::string kind, axes;
  double executions = 0;
  double bytes = 0;
  double seconds = 0;
};

// What a step takes on the device with the largest shards, which includes what the host does for
// the arguments (counted at the end of the entry function). The total is the sum over `nodes`, and
// nothing is counted anywhere else. Nothing overlaps: computation waits for communication. Of the
// branches of a condition the dearest one counts.
struct ProgramCost {
  double seconds = 0;
  double compute_seconds = 0;
  double transfer_seconds = 0;
  double flops = 0;                                    // of one device
  std::array<double, kNumAllKernelClasses> compute{};  // seconds, by KernelClass
  std::vector<CollectiveCostSum> transfers;            // the dearest first
  std::vector<NodeCost> nodes;  // in the order of the program; those that take time
  int64_t unknown_loops = 0;    // loops whose trips are not known

  // The n dearest nodes.
  std::vector<NodeCost> dearest(size_t n) const;
};
// Devices that share cores (MachineProfile::concurrent_devices) are all taken to be busy. Loops
// whose number of trips is not known are taken to make `trips` of them.
ProgramCost program_cost(const Program& program, const MachineProfile& profile, int64_t trips = 1);

// The index of the dearest entry: the first one that is as large as any, up to the rounding of
// sums.
int dearest_of(const std::vector<double>& seconds);

//   12.4 ms: 10.1 ms compute (81%), 2.3 ms communication (19%)
//     matmul         9.0 ms   73%
//     all_reduce     "model"   2.1 ms   17%   x64   1.0 GiB
//   dearest:
//     1.2 ms  10%  x1   stablehlo.dot_general  tensor<512x4096xbf16>  loc(...)
std::string to_string(const ProgramCost& cost, const Program& program, size_t most = 10);

}  // namespace cleave::analyze
