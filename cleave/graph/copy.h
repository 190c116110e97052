#pragma once

#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// For every value of one graph, by index, its counterpart in another; invalid where there is none.
using ValueMap = std::vector<ValueId>;

// The counterparts of `values`; throws InternalError where one is missing.
std::vector<ValueId> map_values(const std::vector<ValueId>& values, const ValueMap& map);

// A copy of a node with everything inside it, appended to `target` of the other graph. Results are
// entered in the map, and names and locations are kept.
NodeId copy_node(const Graph& from, NodeId node, Graph& to, RegionId target, ValueMap& map);
// Copies the arguments and nodes of a region into an empty one.
void copy_region(const Graph& from, RegionId source, Graph& to, RegionId target, ValueMap& map);

}  // namespace cleave
