#pragma once

#include "cleave/plan/planner.h"

namespace cleave::plan {

// Why nothing fits, in words and bytes. All of it is found by planning again under other limits and
// with fewer pins and annotations.
struct Infeasibility {
  int64_t limit = 0;
  double share = 1;      // of what a device has; `limit`, `least` and `enough` are after it
  int64_t least = 0;     // no plan takes less, proven
  std::string least_at;  // where it is needed
  std::optional<int64_t> enough;  // a limit under which there is a plan; at most 2% above another
                                  // under which none was found, or above `least`
  // A smallest set of pins and annotations of the module that the limit does not allow together;
  // without any one of them there is a plan. Empty if there is no plan without any pins and
  // annotations either.
  std::vector<std::string>
      conflict;                    // pins as they were written, annotations as annotations.h does
  std::vector<std::string> bytes;  // of each of the conflict: what it asks a device to hold
  bool has_constraints = false;    // pins or annotations at all

  std::string text() const;
  std::string line() const;  // the same in one, for an error
};
Infeasibility explain_infeasible(const Graph& graph, const PlannerOptions& options);

}  // namespace cleave::plan
