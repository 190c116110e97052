#pragma once

#include <functional>

#include "cleave/plan/planner.h"

namespace cleave {
class PropagationEngine;
}

// Layouts that are given, not searched; what plan_by_propagation and plan_by_heuristic share.
namespace cleave::plan {

// The mesh under a name, so that a module can have it.
MeshPtr named(const MeshPtr& mesh);
// The module with the pins as annotations.
void annotate(PlannedModule& module, const PlannerOptions& options, const MeshPtr& mesh);
// Spreads the annotations to every value; returns how many ops were visited. No op comes or goes:
// what propagation erases on its way stays here, without an annotation. `observe`, if there is one,
// is shown the finished propagation.
uint32_t propagate(Graph& graph, const std::function<void(const PropagationEngine&)>& observe = {});
// The plan of a module in which every layout is given. `solver` names what gave them. Nothing was
// searched, so that the plan claims no bound.
PlannerResult price_annotations(const PlannedModule& module, PlannerOptions options,
                                const MeshPtr& mesh, const char* solver);

}  // namespace cleave::plan
