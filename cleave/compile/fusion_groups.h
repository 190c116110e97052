#pragma once

#include <cstdint>
#include <vector>

#include "cleave/graph/graph.h"

// What cleave-fuse has decided, and how it is written down.
namespace cleave {

inline constexpr uint32_t kNoFusionGroup = UINT32_MAX;

// Nodes of a region that become one fusion, over R rows and C columns.
struct FusionGroup {
  std::vector<NodeId> nodes;  // in order
  int64_t size = 0;           // R * C
  int64_t columns = 0;        // C; 0 while no member asks for one
};

// Whether the node may run anywhere between what it reads and what reads it.
bool has_free_order(const Node& node);

// Every group becomes a `cleave.fusion` at the place of its last member; nodes keep their place
// unless they must come before another one. `group_of`: the group of each node, or kNoFusionGroup.
void write_fusion_groups(Graph& graph, RegionId region, std::vector<FusionGroup>& groups,
                         std::vector<uint32_t>& group_of);

}  // namespace cleave
