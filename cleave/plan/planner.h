#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/formulation.h"
#include "cleave/plan/plan.h"
#include "cleave/solve/solve.h"

namespace cleave::plan {

enum class PlanSolver : uint8_t { Cleave, Mip };

struct PlannerOptions {
  MeshPtr mesh;
  const MachineProfile* profile = nullptr;  // of the machine; not null
  std::string machine;                      // its name for the plan; empty: the profile's
  std::optional<int64_t> memory;  // bytes that a plan may hold on a device; none: no limit
  double memory_share = 1;        // of what a device has; it is only said: memory is after it
  std::vector<Pin> pins;
  std::vector<std::string> ignored = {};  // annotations of the module that do not count, by name
  std::string entry = "main";
  // On meshes of three axes and more, every assignment of axes: many more strategies, more time.
  bool every_layout = false;
  // Axes in parts as well, if a dimension has no room for a whole one: two heads over model=8 as
  // {"model":(1)2}. More strategies, and longer; see axis_parts.h.
  bool sub_axes = false;
  bool apart = false;  // every layer for itself, instead of one choice for all that look alike
  int64_t trips = 1;   // of loops whose number of trips is not known
  Borders borders = Borders::Any;
  Objective objective = Objective::Step;  // what the plan is the best for
  PlanSolver solver = PlanSolver::Cleave;
  // A cap on the planning, in seconds. What has to be done for any plan at all (strategies, prices,
  // one look at layers that are alike) is done in any case; everything else ends at the cap with
  // what it has, and the plan says that it was cut.
  double time_limit = 10;
  // Work of a solve at most, in the solver's units (see solve.h). 0: what the time limit is worth.
  // With this and a time limit that is never reached, plans do not depend on the machine.
  std::uint64_t effort = 0;
  // A plan this close to its bound is good enough; only for a larger gap more effort is spent.
  double gap = 0.01;
  int threads = 2;  // the result does not depend on it
  uint64_t seed = 0;
  std::stop_token stop = {};                           // ends the search with the best plan so far
  std::function<void(const std::string&)> trace = {};  // is told what is done, line by line
};

// How large the planning was, and where its time went.
struct PlannerStats {
  size_t ops = 0, different_ops = 0, decisions = 0, classes = 0, strategies = 0, edges = 0;
  int solves = 0;
  double formulate_seconds = 0, table_seconds = 0, solve_seconds = 0, total_seconds = 0;
};

struct PlannerResult {
  std::optional<Plan> plan;  // none: nothing fits
  bool proven = false;       // without a plan: that nothing fits is proven
  bool cut = false;          // without a plan: the clock ended the search for one
  std::string reason;        // without a plan: why, in words (more in infeasible.h)
  int64_t least_memory = 0;  // no plan takes less
  std::string least_memory_at;
  PlannerStats stats;
};

// The cheapest way to run one step of the module on the mesh within the memory.
//
//   PlannerOptions options{.mesh = mesh, .profile = &builtin_profile("h100"), .memory = 80 << 30};
//   PlannerResult result = make_plan(graph, options);
//
// Strategies of all ops and the reshards between them become a Problem (see formulation.h); its
// memory rows are those times at which an earlier solution did not fit, until one does at all
// times. The bound of the last Problem is therefore a bound for all.
//
// A Problem's cost is a sum, as if nothing overlapped. If the executor overlaps, the solution is
// laid out on the streams of a device (choice_schedule.h), reshards count with the share that is
// exposed there, and the Problem is solved again, a few times; the plan is the one with the
// shortest schedule.
PlannerResult make_plan(const Graph& graph, const PlannerOptions& options);

// What every planning of one module begins with, for callers that plan it several times: on many
// meshes, also side by side. `options.entry` is that of the module.
struct PlannedModule {
  std::string name, entry;
  Graph flat;
  Names names;
  std::string fingerprint;
};
PlannedModule prepare(const Graph& graph, const std::string& entry, const MachineProfile& profile);
PlannerResult make_plan(const PlannedModule& module, const PlannerOptions& options);

}  // namespace cleave::plan
