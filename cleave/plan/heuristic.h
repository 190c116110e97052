#pragma once

#include "cleave/plan/planner.h"

namespace cleave::plan {

// Plans without a search: the layouts of some values, spread to all others by propagation, and
// priced by the same tables as every plan.

// Pins and annotations alone decide; what propagation leaves open is whole. How plans made by hand
// are priced.
PlannerResult plan_by_propagation(const Graph& graph, const PlannerOptions& options);

// The reference heuristic, in four phases:
//   1. read the graph (docs/graph-json.md is its form outside)
//   2. seed: for every matmul, axis by axis, compare what data parallelism costs (rows split; the
//      gradient of the weights is all_reduced) with model parallelism (columns split; the
//      result is gathered), and take the cheaper
//   3. propagate the seeds to a fixed point
//   4. export a layout for every node
// `options.trace` hears every step:
//   [Solver] Analyzing Node 0: dot_general
//   [Solver]   axis data: data parallel 12.4 us, model parallel 30.1 us -> data parallel
PlannerResult plan_by_heuristic(const Graph& graph, const PlannerOptions& options);

}  // namespace cleave::plan
