#pragma once

#include <optional>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Ops through which values flow into and out of regions: while, case, if, optimization_barrier,
// manual and named computations. A data-flow edge joins its sources (operands of the op, operands
// of the terminators of its regions) with its targets (results of the op, arguments of its
// regions); all have one sharding. One of the targets is the owner: the result where there is one,
// else the argument.
//
//   y = while (x) cond(c) { ... } body(b) { ... return r }     sources x, r    targets y (owner),
//   c, b
//
// An `sdy.data_flow_edge` op on the owner, its only user, holds the sharding while propagation
// runs.
bool is_data_flow_op(const Node& node);
bool has_region_arguments_as_owners(const Node& node);  // manual and named computations

// Owners among the arguments of the op's regions, and among its results.
std::vector<ValueId> argument_owners(const Graph& graph, const Node& node);
std::vector<ValueId> result_owners(const Graph& graph, const Node& node);

// The op of a value that an edge could own or target: its producer or the owner of its region.
NodeId data_flow_op_of(const Graph& graph, ValueId value);  // invalid where none
// The owner of the edge that `target` (a result or argument of a data-flow op) belongs to; invalid
// for an argument without one.
ValueId edge_owner(const Graph& graph, ValueId target);
std::vector<ValueId> edge_sources(const Graph& graph, ValueId owner);
std::vector<ValueId> edge_targets_beside_owner(const Graph& graph, ValueId owner);
// The owner of the edge whose source is operand `operand` of `user`; invalid where it is none.
ValueId edge_owner_of_source(const Graph& graph, NodeId user, uint32_t operand);

// Inserts sdy.data_flow_edge for every owner of every data-flow op (or of those that `wanted`
// accepts) that is a tensor, with the sharding that the owner has; all uses of the owner become
// uses of the edge.
void add_data_flow_edges(Graph& graph, bool (*wanted)(const Node&) = is_data_flow_op);
// Removes the edges and writes their shardings to the ops that they belong to.
void sink_data_flow_edges(Graph& graph);

}  // namespace cleave
