#pragma once

#include "cleave/plan/planner.h"

namespace cleave::plan {

// Why nothing fits, in words and bytes. All of it is found by planning again under other limits and
// with fewer pins.
struct Infeasibility {
  int64_t limit = 0;
  int64_t least = 0;              // no plan takes less, proven
  std::string least_at;           // where it is needed
  std::optional<int64_t> enough;  // a limit under which there is a plan; at most 2% above another
                                  // under which none was found, or above `least`
  // A smallest set of pins that the limit does not allow together; fewer of them it does.
  // Empty where there is none without pins either.
  std::vector<std::string> conflict;

  std::string text() const;
};
Infeasibility explain_infeasible(const Graph& graph, const PlannerOptions& options);

}  // namespace cleave::plan
