#pragma once

#include <string>
#include <vector>

#include "cleave/report/change_rows.h"
#include "cleave/report/planned_program.h"
#include "cleave/report/report_tables.h"

namespace cleave::report {

// What runs of a plan left: each text as it was read, with the name of its file for messages.
struct MeasuredInputs {
  std::string timeline, timeline_name;  // `cleave run --plan --timeline`; empty: none
  std::string checks, checks_name;      // `cleave verify --json`; empty: none
  bool empty() const { return timeline.empty() && checks.empty(); }
};

// Seconds by op and by change of layout, of one device on average, and what was checked. Throws
// UserError if a text is of another form or names ops that the plan does not have.
Json measured_report(const MeasuredInputs& inputs, const PlannedProgram& planned,
                     const ChangeTable& changes);

}  // namespace cleave::report
