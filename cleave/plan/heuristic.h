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
//   2. seed: for every matmul, axis by axis, take the cheapest of
//        data parallelism: rows are split; the gradient of the weights is all_reduced, if the
//          module has a backward pass (heuristic_backward.h)
//        model parallelism: columns are split; the result is gathered
//        contraction: the contracted dimension is split on both operands; the result is all_reduced
//   3. propagate the seeds to a fixed point
//   4. export a layout for every node
// `options.trace` hears every step:
//   [Solver] Analyzing Node 0: dot_general
//   [Solver]   axis data: data parallel 12.40 us, model parallel 30.10 us, contraction 31.00 us ->
//              data parallel
//   [Solver] Propagation iteration 1: changed=3
//   [Solver] Fixed-point reached after 5 iterations
// and warnings of ops that have no rule, and of nodes that propagation gave no layout.
PlannerResult plan_by_heuristic(const Graph& graph, const PlannerOptions& options);

}  // namespace cleave::plan
