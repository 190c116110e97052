#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

class PropagationEngine;
struct OpShardingRule;

// Before propagation.

// Every mesh that a sharding holds inline becomes a mesh of the module; equal meshes become one.
void lift_inlined_meshes(Graph& graph);
// Axes of size 1 leave all shardings: they say nothing and only cause conflicts.
void remove_size_one_axes(Graph& graph);
// Manual axes in mesh order; in and out shardings name every manual axis, as replicated where
// unused.
void clean_up_manual_axes(Graph& graph);
// A sharding constraint that is closed, and that no other constraint contradicts, becomes the
// sharding of its input; the uses of the input after a chain of constraints become uses of its
// last.
void apply_sharding_constraints(Graph& graph);
// Every use of a constant (iota, ...) and of what is computed from constants alone gets a copy of
// its own, so that its uses can be sharded in different ways. Also of broadcast scalars. Scalars
// stay.
void split_constants(Graph& graph);

// Calls.

// Callees before their callers; of functions that do not call each other, the earlier in the module
// first.
std::vector<int> call_graph_post_order(const Graph& graph);
void order_functions_by_calls(Graph& graph);  // callers before callees
// The call gets a copy of its function, and of everything that this calls, to itself. `counter`
// numbers the new names over several calls.
void clone_callee(Graph& graph, NodeId call, int& counter);
// Every call gets a function of its own.
void flatten_call_graph(Graph& graph);
// Every call becomes an sdy.named_computation with the body of the callee.
void import_function_calls(Graph& graph, bool add_edges);
// And back: every named computation becomes a call of a new private function.
void export_named_computations(Graph& graph);
// Functions that came from one and have the same shardings become one again.
void unflatten_call_graph(Graph& graph, bool ignore_shardings);
void remove_unused_functions(Graph& graph);
// Results of a call without shardings take those of the function's results.
void propagate_shardings_from_functions_to_calls(Graph& graph);
// Results of functions other than the main one take the shardings of what they return.
void propagate_to_function_results(Graph& graph);
// A call's results have the shardings that the callee returns; a reshard follows where they differ.
void insert_call_reshards(Graph& graph);
void add_function_data_flow_edges(Graph& graph);
void sink_function_data_flow_edges(Graph& graph);

// After propagation.

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
void drop_sharding_rules(Graph& graph);  // all but those that the user gave
void drop_shardings_and_meshes(Graph& graph);
// Pure ops whose results nobody uses.
void remove_dead_ops(Graph& graph);
// Puts the rule of every op that has one on the op. Returns a message for each kind of op without
// one.
std::vector<std::string> populate_sharding_rules(Graph& graph, bool conservative);

// Pipelines.

struct PipelineOptions {
  bool dedup_functions_fully = false;
  // Arguments and results stay sharded where their sizes do not divide, as they may be inside.
  // Without it they are made to divide, as Shardy's pipeline does.
  bool keep_uneven = false;
  // PropagationOptions::runs_along, for programs that are run: `runs_along` of cleave/spmd.
  std::vector<bool> (*runs_along)(const Graph& graph, const Node& node,
                                  const OpShardingRule& rule) = nullptr;
  // Shown the finished propagation, before what comes after it changes the module.
  std::function<void(const PropagationEngine&)> observe = {};
  // The graph was verified, or recorded op by op; otherwise that is done first (graph/verify.h).
  bool verified = false;
};
void run_import_pipeline(Graph& graph, const PipelineOptions& options);
// The import pipeline and what calls need: everything before propagation itself.
void prepare_for_propagation(Graph& graph, const PipelineOptions& options);
// Everything before, propagation with all priorities, and everything after.
void run_propagation_pipeline(Graph& graph, const PipelineOptions& options);

}  // namespace cleave
