#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/registry/pass_families.h"
#include "cleave/rules/explain.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/import/import_passes.h"
#include "cleave/rules/pipelines.h"
#include "cleave/rules/propagate/populate_sharding_rules.h"
#include "cleave/rules/propagate/propagation.h"
#include "cleave/spmd/reshard_passes.h"

namespace cleave {
namespace {

FactorStrategy strategy_from(std::string_view name) {
  if (name == "aggressive") return FactorStrategy::Aggressive;
  if (name == "basic") return FactorStrategy::Basic;
  if (name == "basic-then-aggressive") return FactorStrategy::BasicThenAggressive;
  throw_user("propagation-strategy is aggressive, basic or basic-then-aggressive, not '{}'", name);
}

// Tells what a finished propagation decided (with `trace`), and what it had to drop.
void report(const PropagationEngine& engine, std::vector<std::string> names,
            const PassContext& context) {
  if (!context.trace && !context.warning) return;
  const Explainer explainer(engine, std::move(names));
  if (context.trace) context.emit_remark(explainer.trace());
  for (const std::string& warning : explainer.warnings()) context.emit_warning(warning);
}

void propagate(Graph& graph, PropagationOptions options, const PassOptions& given,
               PassContext& context) {
  if (given.has("propagation-strategy"))
    options.strategy = strategy_from(given.get("propagation-strategy"));
  options.conservative = given.get_bool("conservative-propagation");
  options.keep_rules = given.get_bool("keep-sharding-rules");
  if (given.has("run-op-priority-propagation"))
    options.op_priorities = given.get_bool("run-op-priority-propagation");
  for (const std::string& warning : synchronize_sharding_groups(graph))
    context.emit_warning(warning);
  PropagationEngine engine(graph, options);
  engine.run();
  report(engine, value_names(graph), context);
  engine.write_back();
}

const std::vector<std::string> kPropagationOptions = {"keep-sharding-rules",
                                                      "module-dump-directory",
                                                      "conservative-propagation",
                                                      "propagation-strategy",
                                                      "run-op-priority-propagation",
                                                      "debug-sharding-origins",
                                                      "debug-propagation-edge-sharding"};

using PlainPass = void (*)(Graph&);

void add_passes_with_options(PassRegistry& registry) {
  registry.add({"sdy-import-func-calls",
                {"add-data-flow-edges-on-named-computations"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  import_function_calls(
                      graph, options.get_bool("add-data-flow-edges-on-named-computations", true));
                }});
  registry.add({"sdy-unflatten-call-graph",
                {"dedup-functions-fully"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  unflatten_call_graph(graph, options.get_bool("dedup-functions-fully"));
                }});
  registry.add({"sdy-populate-op-sharding-rules",
                {"conservative-propagation"},
                [](Graph& graph, const PassOptions& options, PassContext& context) {
                  for (const std::string& message :
                       populate_sharding_rules(graph, options.get_bool("conservative-propagation")))
                    context.emit_warning(message);
                }});
  registry.add({"sdy-import-pipeline",
                {"dedup-functions-fully"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  run_import_pipeline(graph, {options.get_bool("dedup-functions-fully")});
                }});
  registry.add({"sdy-propagation-pipeline",
                {"dedup-functions-fully"},
                [](Graph& graph, const PassOptions& options, PassContext& context) {
                  PipelineOptions pipeline{options.get_bool("dedup-functions-fully")};
                  pipeline.observe = [&,
                                      names = value_names(graph)](const PropagationEngine& engine) {
                    report(engine, names, context);
                  };
                  pipeline.verified = true;
                  run_propagation_pipeline(graph, pipeline);
                  insert_explicit_reshards(graph, /*full=*/false);
                  remove_dead_ops(graph);
                }});
}

}  // namespace

void register_propagation_passes(PassRegistry& registry) {
  auto add_propagation = [&](std::string name, PropagationOptions options) {
    registry.add({std::move(name), kPropagationOptions,
                  [options](Graph& graph, const PassOptions& given, PassContext& context) {
                    propagate(graph, options, given, context);
                  }});
  };
  add_propagation("sdy-basic-propagate", {FactorStrategy::Basic, false, false});
  add_propagation("sdy-aggressive-propagate", {FactorStrategy::Aggressive, false, false});
  add_propagation("sdy-op-priority-propagate", {FactorStrategy::Aggressive, true, false});
  add_propagation("sdy-user-priority-propagate", {FactorStrategy::Aggressive, true, true});

  auto add_plain = [&](std::string name, PlainPass pass, std::vector<std::string> options = {}) {
    registry.add({std::move(name), std::move(options),
                  [pass](Graph& graph, const PassOptions&, PassContext&) { pass(graph); }});
  };
  add_plain("sdy-add-data-flow-edges", [](Graph& graph) { add_data_flow_edges(graph); });
  add_plain("sdy-sink-data-flow-edges", sink_data_flow_edges,
            {"sink-debug-sharding-origins", "sink-debug-propagation-edge-sharding"});
  add_plain("sdy-add-func-data-flow-edges", add_function_data_flow_edges);
  add_plain("sdy-sink-func-data-flow-edges", sink_function_data_flow_edges);
  add_plain("sdy-apply-sharding-constraints", apply_sharding_constraints,
            {"debug-sharding-origins", "debug-propagation-edge-sharding"});
  add_plain("sdy-constant-or-scalar-splitter", split_constants);
  add_plain("sdy-constant-or-scalar-merger", merge_constants);
  add_plain("sdy-flatten-call-graph", flatten_call_graph);
  add_plain("sdy-pre-order-funcs", order_functions_by_calls);
  add_plain("sdy-propagate-sharding-from-func-to-call",
            propagate_shardings_from_functions_to_calls);
  add_plain("sdy-propagate-to-func-results", propagate_to_function_results);
  add_plain("sdy-lift-inlined-meshes", lift_inlined_meshes);
  add_plain("sdy-remove-size-one-axes", remove_size_one_axes);
  add_plain("sdy-manual-axes-cleanup", clean_up_manual_axes);
  add_plain("sdy-sharding-group-import", unify_sharding_groups);
  add_plain("sdy-remove-sharding-groups", remove_sharding_groups);
  add_plain("sdy-close-shardings", close_shardings);
  add_plain("sdy-sharding-constraint-to-reshard", convert_constraints_to_reshards);
  add_plain("sdy-update-non-divisible-input-output-shardings", make_inputs_and_outputs_divisible);
  add_plain("sdy-remove-sub-axes-in-input-output-shardings", remove_sub_axes_of_inputs_and_outputs);
  add_plain("sdy-drop-sharding-rules", drop_sharding_rules);
  add_plain("sdy-drop-sharding-and-mesh", drop_shardings_and_meshes);
  add_plain("sdy-export-named-computations", export_named_computations);
  add_plain("sdy-insert-func-call-reshards", insert_call_reshards);
  add_plain("symbol-dce", remove_unused_functions);
  add_plain("cleave-remove-dead-ops", remove_dead_ops);
  add_passes_with_options(registry);
}

}  // namespace cleave
