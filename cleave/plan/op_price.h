#pragma once

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/spmd/program.h"

namespace cleave::plan {

// What one op takes on the device with the largest shards, for one layout of its operands and
// results after another: the sum of `node_seconds` over the nodes that `instantiate` makes of it,
// as program_cost counts them.
class OpPrice {
 public:
  OpPrice(const Graph& graph, const Node& node, const MeshPtr& mesh, const MachineProfile& profile);

  double seconds(const std::vector<ShardingSpec>& operands,
                 const std::vector<ShardingSpec>& results);
  // The op alone in these layouts.
  const Program& program(const std::vector<ShardingSpec>& operands,
                         const std::vector<ShardingSpec>& results);

 private:
  double local_seconds(const std::vector<ShardingSpec>& operands,
                       const std::vector<ShardingSpec>& results);
  bool has_nothing_to_compute() const;

  const MachineProfile& profile_;
  Program program_;  // the op alone
  Graph local_;      // the same with the shapes of a device, if nothing else differs
  NodeId node_;      // in both
  bool is_plain_;
};

}  // namespace cleave::plan
