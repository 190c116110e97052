#pragma once

#include <vector>

#include "cleave/graph/graph.h"

// What the passes that make `cleave.fusion` nodes share.
namespace cleave {

// A tensor of static shape whose dtype has kernels.
bool has_static_tensor(const Graph& graph, ValueId value);

// A constant of one value everywhere.
bool is_splat_constant(const Node& node);
// Such a constant, an iota or a broadcast: copied into the fusions that read it, rather than
// computed by itself.
bool is_cheap_leaf(const Graph& graph, const Node& node);
// What the value reads in the end, through leaves that are copied.
void leaf_sources(const Graph& graph, ValueId value, std::vector<ValueId>& sources);

// Moves `nodes` of a region, given in order, into the region of a new `cleave.fusion` that returns
// `outputs`, values of theirs. Cheap leaves that they read are copied, everything else becomes an
// operand. The fusion stands in no list of nodes yet, and nothing reads its results.
NodeId write_fusion(Graph& graph, RegionId region, const std::vector<NodeId>& nodes,
                    const std::vector<ValueId>& outputs);

}  // namespace cleave
