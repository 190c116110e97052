#pragma once

#include <string>
#include <vector>

#include "cleave/report/measured.h"
#include "cleave/report/planned_program.h"
#include "cleave/report/report_tables.h"

namespace cleave::report {

// A plan and what is known beside it.
struct ReportedPlan {
  const Plan* plan = nullptr;
  const Graph* graph = nullptr;             // its module; null: it cannot be found
  const MachineProfile* profile = nullptr;  // of the plan's machine; null only without a module
  std::string title;                        // empty: the plan's module and mesh
  std::vector<std::string> notes = {};      // beside the plan's own
  MeasuredInputs measured = {};             // of runs; empty: none
};

// Everything that a page shows of a plan (docs/internals/report.md). Without the module it has what
// the plan file says: totals, ops by name, layouts and seconds.
Json plan_report(const ReportedPlan& reported);

// A mesh with the links of its axes on a machine; null: which machine is not known.
Json mesh_report(const Mesh& mesh, const MachineProfile* profile);

// "@main on <["data"=8]> of h100", or what the plan was read from in place of the name.
std::string title_of(const Plan& plan);

}  // namespace cleave::report
