#pragma once

#include "cleave/graph/graph.h"

// What Shardy asks of its ops beside the types of their operands. All throw UserError.
namespace cleave {

// A collective's axes turn the operand's sharding into the result's:
//   all_gather  [{}, {"y"}]  of  [{"x"}, {"z", "y"}]  ->  [{"x"}, {"z"}]
//   all_slice   [{}, {"y"}]  of  [{"x"}, {"z"}]       ->  [{"x"}, {"z", "y"}]
void verify_sdy_collective(const Graph& graph, const Node& node);

// The axes of a manual computation are those of its mesh, come first in every dimension, and all
// shardings are of one mesh.
void verify_manual_shardings(const Node& node, const std::vector<ShardingSpec>& in,
                             const std::vector<ShardingSpec>& out,
                             const std::vector<std::string>& manual);

}  // namespace cleave
