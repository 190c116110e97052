#pragma once

#include "cleave/report/change_rows.h"
#include "cleave/report/planned_program.h"
#include "cleave/report/report_tables.h"

namespace cleave::report {

// What the planner says of memory, and nothing about the program.
Json memory_of_plan(const Plan& plan);
// With the program's: what a device holds at each step, and every buffer with the steps at which it
// is there. At each step the buffers that are there and what is inside sum to what is held.
Json memory_rows(const PlannedProgram& planned, const ChangeTable& changes, ReportTables& tables);

}  // namespace cleave::report
