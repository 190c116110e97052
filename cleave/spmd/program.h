#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/shard_layout.h"
#include "cleave/graph/graph.h"
#include "cleave/spmd/transfer.h"

namespace cleave {

// A partitioned module: the logical ops with the resharding between them made explicit, and the
// layout of every value. Types and attributes stay those of the whole tensors; `instantiate`
// derives one device's graph from them, with the true sizes of its shards.
//
//   %0 = sdy.all_gather [{}, {"x"}] %arg1 ...   a step of a reshard: the layout changes
//   %1 = cleave.halo %arg0                      adds elements of neighbours, for the next op
//   %2 = stablehlo.dot_general %arg0, %0        its parts run on every device alone
struct Program {
  Graph graph;
  MeshPtr mesh;
  std::vector<Layout> layouts;  // by value
  std::string entry;            // the function that was partitioned

  const Layout& layout(ValueId value) const { return layouts[value.index]; }
  const Function& entry_function() const;
};

// One device's program: true local shapes, local attributes.
struct Instance {
  Graph graph;
  std::string entry;
  std::vector<NodeId> origin;                        // by node: the Program's node; may be invalid
  std::vector<std::shared_ptr<Transfer>> transfers;  // by node: of the nodes that talk; else null

  const Transfer* transfer(NodeId node) const {
    return node.index < transfers.size() ? transfers[node.index].get() : nullptr;
  }
};

// `planners` keeps what the devices of a Program have in common from one call to the next.
Instance instantiate(const Program& program, int64_t device, TransferPlanners* planners = nullptr);
// The same without the plans of transfers (all null), for callers that price a program and do not
// run it.
Instance instantiate_shapes(const Program& program, int64_t device);

// The graph of one device (device 0 holds the largest shards) as a module, with the changes of
// layout as ops that say along which axes, for which op, and between which layouts.
// `cleave opt -cleave-partition=device=0` prints it:
//   %3 = "cleave.all_gather"(%2) {axes = "x", for = "stablehlo.dot", from = "[{x}, {}]",
//        to = "[{}, {}]"} : (tensor<4x8xf32>) -> tensor<8x8xf32>
// The program that all devices run is single_program.h.
Graph to_module(const Program& program, int64_t device = 0);

// Whether a device counts an operand of a node: along the axes that are pending in the results but
// not in the operand, one device does.
bool counts_operand(const Program& program, const Node& node, ValueId operand, int64_t device);

// Steps of reshards and halos: the nodes that the partitioner put in.
bool is_transfer(const Node& node);
// The value that transfers, if there are any, made this one of.
ValueId behind_transfers(const Graph& graph, ValueId value);

}  // namespace cleave
