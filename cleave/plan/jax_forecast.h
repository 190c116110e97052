#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// What a step moves if XLA gets the layouts of arguments and results alone, as `to_jax` says them,
// beside what the plan moves. The layouts are spread by propagation and changes of layout are put
// in as Shardy does it, with every sum completed where it stands, and the program is priced. XLA's
// own partitioner may choose other collectives for the same layouts, and its compiler may make a
// reduce_scatter of an all_reduce and a slice. So this is a forecast; docs/guide/planning.md says
// how good.
struct JaxForecast {
  struct Row {
    std::string kind, axes;
    double planned_bytes = 0, bytes = 0;  // that one device receives in a step
    double planned_count = 0, count = 0;
  };
  std::vector<Row> rows;  // that move anything; those that differ most first
  double planned_bytes = 0, bytes = 0;
  double planned_seconds = 0, seconds = 0;  // compute and collectives, one after the other

  // Within 2% of the plan's bytes in all, and every kind within 2% of all of them.
  bool is_the_plan() const;
};

// `graph` is the module of the plan; its own constraints stay in it.
JaxForecast forecast_of_jax(const Plan& plan, const Graph& graph, const MachineProfile& profile);

// A line for the whole, and one for each kind if it is not the plan:
//
//   XLA is forecast not to follow the plan from these layouts alone: 4.01 GiB received by a device,
//   517.0 MiB were planned (+692%). --export manual is followed exactly.
//     all_reduce "model"    planned 1.0 MiB x2    forecast 9.0 MiB x14
std::string to_string(const JaxForecast& forecast);

}  // namespace cleave::plan
