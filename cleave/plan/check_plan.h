#pragma once

#include "cleave/graph/graph.h"
#include "cleave/plan/names.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// Throws UserError unless everything that the plan says fits the module: every op and value that it
// names is there, with as many operands and results, in layouts of their ranks. Code that reads a
// plan from a file and the module beside it calls this first; `flat` and `names` are those of the
// plan's entry.
void check_fits(const Plan& plan, const Graph& flat, const Names& names);
void check_fits(const Plan& plan, const Graph& graph);  // of a module that is not flat yet

}  // namespace cleave::plan
