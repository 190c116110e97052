#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/rules/data_flow.h"

// The passes before propagation: each in the file of its name. run_import_pipeline and
// prepare_for_propagation (rules/pipelines.h) say in which order they run.
namespace cleave {

// Every mesh that a sharding holds inline becomes a mesh of the module; equal meshes become one.
void lift_inlined_meshes(Graph& graph);
// Axes of size 1 leave all shardings: they say nothing and only cause conflicts.
void remove_size_one_axes(Graph& graph);
// Puts manual axes in mesh order; in and out shardings then name every manual axis, as replicated
// if it is not used.
void clean_up_manual_axes(Graph& graph);
// A sharding constraint that is closed, and that no other constraint contradicts, becomes the
// sharding of its input; the uses of the input after a chain of constraints become uses of its
// last.
void apply_sharding_constraints(Graph& graph);
// Every use of a constant (iota, ...) and of what is computed from constants alone gets a copy of
// its own, so that its uses can be sharded in different ways. Broadcasts of scalars are copied too;
// scalars are not.
void split_constants(Graph& graph);

// Calls.

void order_functions_by_calls(Graph& graph);  // callers before callees
// Every call gets a function of its own.
void flatten_call_graph(Graph& graph);
// Every call becomes an sdy.named_computation with the body of the callee.
void import_function_calls(Graph& graph, bool add_edges);
// Removes private functions that nothing names. It runs after passes of export as well.
void remove_unused_functions(Graph& graph);
// Results of a call without shardings take those of the function's results.
void propagate_shardings_from_functions_to_calls(Graph& graph);

// Edges and groups.

// Inserts sdy.data_flow_edge for every owner of every data-flow op (or of those that `wanted`
// accepts) that is a tensor, with the sharding that the owner has; all uses of the owner become
// uses of the edge.
void add_data_flow_edges(Graph& graph, bool (*wanted)(const Node&) = is_data_flow_op);
// The same for arguments of functions and results of calls, as sdy.func_data_flow_edge.
void add_function_data_flow_edges(Graph& graph);
// Joins groups that share a value, numbers them 0, 1, ... in the order of the text, and
// drops repeated members. Throws UserError if members of a group have different shapes or stand
// in different manual computations.
void unify_sharding_groups(Graph& graph);
// Gives all members of a group the sharding that one of them has. If members have different ones,
// every member gets an open sharding constraint behind it, which takes its place in the group and
// all of its uses. Returns a warning for each such group.
std::vector<std::string> synchronize_sharding_groups(Graph& graph);

}  // namespace cleave
