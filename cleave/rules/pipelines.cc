#include "cleave/rules/pipelines.h"

#include "cleave/graph/verify.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/import/import_passes.h"
#include "cleave/rules/propagate/propagation.h"

namespace cleave {

void run_import_pipeline(Graph& graph, const PipelineOptions& options) {
  remove_unused_functions(graph);
  lift_inlined_meshes(graph);
  remove_size_one_axes(graph);
  propagate_shardings_from_functions_to_calls(graph);
  split_constants(graph);
  remove_unused_functions(graph);
  clean_up_manual_axes(graph);
  add_data_flow_edges(graph);
  if (!options.dedup_functions_fully) return;
  apply_sharding_constraints(graph);
  unify_sharding_groups(graph);
}

void prepare_for_propagation(Graph& graph, const PipelineOptions& options) {
  run_import_pipeline(graph, options);
  if (options.dedup_functions_fully) {
    add_function_data_flow_edges(graph);
  } else {
    flatten_call_graph(graph);
    remove_unused_functions(graph);
    import_function_calls(graph, /*add_edges=*/true);
    remove_unused_functions(graph);
    apply_sharding_constraints(graph);
    unify_sharding_groups(graph);
  }
  order_functions_by_calls(graph);
  synchronize_sharding_groups(graph);
}

void run_propagation_pipeline(Graph& graph, const PipelineOptions& options) {
  if (!options.verified) verify_graph(graph);
  prepare_for_propagation(graph, options);
  PropagationEngine engine(
      graph, {.runs_along = options.runs_along, .keep_empty_whole = options.runs_along != nullptr});
  engine.run();
  if (options.observe) options.observe(engine);
  engine.write_back();
  if (options.dedup_functions_fully) {
    propagate_to_function_results(graph);
    sink_function_data_flow_edges(graph);
  } else {
    export_named_computations(graph);
    propagate_to_function_results(graph);
  }
  unflatten_call_graph(graph, /*ignore_shardings=*/false);
  remove_unused_functions(graph);
  insert_call_reshards(graph);

  merge_constants(graph);
  sink_data_flow_edges(graph);
  remove_sharding_groups(graph);
  convert_constraints_to_reshards(graph);
  if (!options.keep_uneven) make_inputs_and_outputs_divisible(graph);
  remove_sub_axes_of_inputs_and_outputs(graph);
  close_shardings(graph);
  remove_dead_ops(graph);
}

}  // namespace cleave
