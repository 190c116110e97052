#pragma once

#include "cleave/plan/planner.h"

// Layouts that are given, not searched; what plan_by_propagation and plan_by_heuristic share.
namespace cleave::plan {

// The mesh under a name, so that a module can have it.
MeshPtr named(const MeshPtr& mesh);
// The flat module with the pins as annotations.
Graph annotated(const Graph& graph, const PlannerOptions& options, const MeshPtr& mesh);
// Spreads the annotations to every value; returns how many ops were visited.
uint32_t propagate(Graph& graph);
// The plan of a module in which every layout is given. `solver` names who gave them.
PlannerResult price_annotations(const Graph& graph, PlannerOptions options, const MeshPtr& mesh,
                                const char* solver);

}  // namespace cleave::plan
