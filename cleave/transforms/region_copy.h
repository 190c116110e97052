#pragma once

#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/graph.h"

namespace cleave {

// For values of a function that is read, their counterparts in the one that is written; both lie in
// one graph, which grows meanwhile.
using ValueTable = ValueMap;

// A copy of a node, with its regions, at the end of `target`; results are entered in the table.
NodeId copy_within(Graph& graph, NodeId source, RegionId target, ValueTable& table);

// Makes these arguments and nodes those of a region, taking them from where they were.
void adopt(Graph& graph, RegionId region, std::vector<ValueId> args, std::vector<NodeId> nodes);

// Ends a region with an op of this name ("stablehlo.return", "sdy.return").
void end_region(Graph& graph, RegionId region, std::string_view name, std::vector<ValueId> results);

bool is_differentiable(const Type& type);  // a tensor of floats or complex numbers

}  // namespace cleave
