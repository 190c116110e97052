#pragma once

#include <functional>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

class PropagationEngine;
struct OpShardingRule;

struct PipelineOptions {
  bool dedup_functions_fully = false;
  // Arguments and results stay sharded even if their sizes do not divide, as values inside may.
  // Without it they are made to divide, as Shardy's pipeline does.
  bool keep_uneven = false;
  // PropagationOptions::runs_along, for programs that are run: `runs_along` of cleave/spmd.
  std::vector<bool> (*runs_along)(const Graph& graph, const Node& node,
                                  const OpShardingRule& rule) = nullptr;
  // Shown the finished propagation, before what comes after it changes the module.
  std::function<void(const PropagationEngine&)> observe = {};
  // The graph was verified, or recorded op by op; otherwise it is verified first (graph/verify.h).
  bool verified = false;
};
void run_import_pipeline(Graph& graph, const PipelineOptions& options);
// The import pipeline and what calls need: everything before propagation itself.
void prepare_for_propagation(Graph& graph, const PipelineOptions& options);
// Everything before, propagation with all priorities, and everything after.
void run_propagation_pipeline(Graph& graph, const PipelineOptions& options);

}  // namespace cleave
