#pragma once

#include <vector>

#include "cleave/report/op_rows.h"
#include "cleave/report/planned_program.h"
#include "cleave/report/report_tables.h"

namespace cleave::report {

// The table `changes` of a report: a row for each step of each change of layout, and for each
// collective that the user wrote, in the order of the program.
struct ChangeTable {
  Json rows;
  std::vector<int> of_node;  // by node of the program: its row; -1: it has none
};
// Enters them into the groups, and what it takes to write values for them that were in no memory.
ChangeTable change_rows(const PlannedProgram& planned, ReportTables& tables, GroupRows& groups);
// The same without a row.
Json empty_change_rows();

// The table `schedule`.
Json schedule_rows(const PlannedProgram& planned, const ChangeTable& changes);

}  // namespace cleave::report
