#pragma once

#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Values that must have one sharding, by sdy.sharding_group ops.
struct ShardingGroups {
  std::vector<std::vector<ValueId>> members;  // by group id
  bool empty() const { return members.empty(); }
};
ShardingGroups find_sharding_groups(const Graph& graph);
std::vector<NodeId> sharding_group_nodes(const Graph& graph);

}  // namespace cleave
