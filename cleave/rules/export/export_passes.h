#pragma once

#include "cleave/graph/graph.h"

// The passes after propagation: each in the file of its name. run_propagation_pipeline
// (rules/pipelines.h) says in which order they run.
namespace cleave {

// Removes the data-flow edges and writes their shardings to the ops that they belong to.
void sink_data_flow_edges(Graph& graph);
void sink_function_data_flow_edges(Graph& graph);
void remove_sharding_groups(Graph& graph);
// {"x", ?} -> {"x"}; and nothing needs to be replicated explicitly any more.
void close_shardings(Graph& graph);
void convert_constraints_to_reshards(Graph& graph);
// Arguments, results, calls and manual computations keep only the axes that divide their
// dimensions.
void make_inputs_and_outputs_divisible(Graph& graph);
// Open dimensions of the main function's arguments and results lose sub-axes and what follows them.
void remove_sub_axes_of_inputs_and_outputs(Graph& graph);
// Equal constants, and equal broadcasts of a scalar, of one region become one.
void merge_constants(Graph& graph);
// Removes pure ops whose results nothing uses.
void remove_dead_ops(Graph& graph);
void drop_sharding_rules(Graph& graph);  // all but those that the user gave
void drop_shardings_and_meshes(Graph& graph);

// Calls.

// Every named computation becomes a call of a new private function.
void export_named_computations(Graph& graph);
// Results of functions other than the main one take the shardings of what they return.
void propagate_to_function_results(Graph& graph);
// Functions that came from one and have the same shardings become one again.
void unflatten_call_graph(Graph& graph, bool ignore_shardings);
// A call's results have the shardings that the callee returns; a reshard follows if they differ.
void insert_call_reshards(Graph& graph);

}  // namespace cleave
