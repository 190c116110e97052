#include "cleave/plan/solvers.h"

#include "cleave/core/error.h"
#include "cleave/plan/heuristic.h"

namespace cleave::plan {

PlannerResult plan_by(std::string_view solver, const Graph& graph, PlannerOptions options) {
  if (solver == "heuristic") return plan_by_heuristic(graph, options);
  if (solver == "propagation") return plan_by_propagation(graph, options);
  if (solver == "mip")
    options.solver = PlanSolver::Mip;
  else if (solver != "cleave")
    throw_user("solver '{}': there are cleave, mip, heuristic and propagation", solver);
  return make_plan(graph, options);
}

}  // namespace cleave::plan
