#pragma once

#include "cleave/plan/plan.h"
#include "cleave/report/report_tables.h"

namespace cleave::report {

// What changed from one plan to another, as rows: figures of the step, communication by kind and
// axes, then ops and values whose layouts differ; and why in sentences. Ops and values go by names,
// so that plans of two modules can be compared as far as their names agree.
Json comparison(const plan::Plan& before, const plan::Plan& after);

}  // namespace cleave::report
