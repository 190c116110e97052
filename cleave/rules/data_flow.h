#pragma once

#include <optional>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/graph/graph.h"

namespace cleave {

// Data-flow edges join what flow.h says of ops with regions into sets of values that have one
// sharding: loops, branches, barriers, manual and named computations. An edge joins its sources
// (operands of the op, operands of the terminators of its regions) with its targets (results of the
// op, arguments of its regions). One of the targets is the owner: the result if there is one, else
// the argument.
//
//   y = while (x) cond(c) { ... } body(b) { ... return r }
//     sources x, r    targets y (owner), c, b
//
// An `sdy.data_flow_edge` op on the owner, its only user, holds the sharding while propagation
// runs.
bool is_data_flow_op(const Node& node);
bool has_region_arguments_as_owners(const Node& node);  // manual and named computations

// Owners among the arguments of the op's regions, and among its results.
std::vector<ValueId> argument_owners(const Graph& graph, const Node& node);
std::vector<ValueId> result_owners(const Graph& graph, const Node& node);

// The op of a value that an edge could own or target: its producer or the owner of its region.
NodeId data_flow_op_of(const Graph& graph, ValueId value);  // invalid if there is none
// The owner of the edge that `target` (a result or argument of a data-flow op) belongs to; invalid
// for an argument without one.
ValueId edge_owner(const Graph& graph, ValueId target);
std::vector<ValueId> edge_sources(const Graph& graph, ValueId owner);
std::vector<ValueId> edge_targets_beside_owner(const Graph& graph, ValueId owner);
// The owner of the edge whose source is operand `operand` of `user`; invalid if it is none.
ValueId edge_owner_of_source(const Graph& graph, NodeId user, uint32_t operand);

// The sdy.data_flow_edge on each value that has one, by ValueId.
std::vector<NodeId> find_data_flow_edges(const Graph& graph);
// The shardings that the edges on `owners` hold, open if one has none; empty if no edge has any.
std::vector<ShardingSpec> edge_shardings(const Graph& graph, const std::vector<ValueId>& owners,
                                         const std::vector<NodeId>& edge_of);

}  // namespace cleave
