#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/core/sharding.h"

namespace cleave {
enum class BytesStyle : uint8_t;  // units.h
}

namespace cleave::plan {

// What a plan is the best for, within the memory:
//
//   Step    the shortest step, with collectives beside computation if the machine's executor
//           overlaps them
//   Sum     the least sum of all kernels and collectives, as if nothing overlapped
//   Bytes   the fewest bytes that a device receives in a step; of plans that receive the same, the
//           one with the least sum
enum class Objective : uint8_t { Step, Sum, Bytes };
std::string_view name(Objective objective);                 // "step", "sum", "bytes"
Objective objective_from_name(std::string_view objective);  // throws UserError that lists them

// The chosen layout of every value and the chosen way to run every op, what they cost, and what
// bound proves it: plain data, and a file. Values and ops go by names that survive printing and
// reading a module again (see names.h): an argument by its name in the text, an op by its kind and
// its number among those of that kind, a result by the op.
//
//   arg0    dot_general.3    dot_general.3#1    while.0/1/add.2    return
//
// Calls are written out in place before names are given.

// How a value lies when it is defined: as its op leaves it, pending reductions included.
struct PlannedValue {
  std::string name;
  ShardingSpec spec;
  bool operator==(const PlannedValue&) const = default;
};

// A second layout of a value, made once and used by several operands: what was gathered for
// three matmuls, or completed right after the op that left it partial.
struct PlannedCopy {
  std::string name;    // of the copy: "arg3'1"
  std::string source;  // a value or an earlier copy
  ShardingSpec spec;
  // The op before which it is made; empty: right after the source.
  std::string before;
  bool operator==(const PlannedCopy&) const = default;
};

// One operand: where it comes from, and the layout in which the op takes it. If the two
// differ, it is resharded just for this op.
struct PlannedOperand {
  std::string source;  // a value or a copy
  ShardingSpec spec;   // no mesh: not a ranked tensor
  bool operator==(const PlannedOperand&) const = default;
};

// One way to run one op.
struct PlannedOp {
  std::string name;
  std::string op;  // "stablehlo.dot_general"
  std::vector<PlannedOperand> operands;
  std::vector<ShardingSpec> results;
  double seconds = 0;  // of the op itself, once
  // How often it runs in one step: the trips of the loops around it; 0 in a branch that is not the
  // dearest one, which is what a step is taken to run.
  double times = 1;
  bool operator==(const PlannedOp&) const = default;
};

// All communication of one kind along the same axes.
struct CollectiveTotal {
  std::string kind;  // "all_gather"
  std::string axes;  // "\"data\", \"model\""
  double count = 0;  // per step, loops included
  double bytes = 0;  // received by one device
  double seconds = 0;
  bool operator==(const CollectiveTotal&) const = default;
};

struct PlanTotals {
  double received_bytes() const;  // by one device in a step
  double seconds = 0;             // compute and all collectives, one after the other
  double compute_seconds = 0;
  std::vector<CollectiveTotal> collectives;  // dearest first
  // Of the schedule (analyze/schedule.h), in which collectives run beside computation if the
  // executor lets them: how long the step is, how long collectives run (small ones as one, without
  // what is local), for how much of that nothing is computed, and how much longer kernels take
  // because collectives run beside them.
  double step_seconds = 0;
  double communication_seconds = 0;
  double exposed_seconds = 0;
  double slowed_seconds = 0;
  bool operator==(const PlanTotals&) const = default;
};

// How the solve went. `lower_bound` and `gap` are of the planned step if nothing overlaps (the
// additive model), in seconds; under Objective::Bytes, of the bytes that a device receives.
struct PlanBound {
  std::string solver;      // "cleave", "mip", "heuristic", "propagation"
  bool exists = true;      // false: layouts were given, nothing was searched, and no bound is known
  double lower_bound = 0;  // no choice among the strategies costs less; 0 if no bound is known
  double gap = 0;          // (cost - bound) / cost; 1 if no bound is known
  bool proven = false;     // the cost is the bound
  bool cut = false;        // the clock ended the solve, not the effort
  bool alike = false;      // the bound is one for plans that give layers that look alike one choice
  double step_bound = 0;   // no choice has a shorter schedule; 0 if no bound is known
  double step_gap = 0;     // (step - bound) / step; 1 if no bound is known
  // If collectives overlap with computation: of a sum over all choices in which what this plan
  // communicates counts as its schedule hides it, and other communication is hidden no better. The
  // gap of the plan as a plain sum otherwise.
  double model_gap = 0;

  static PlanBound none(std::string solver);
  bool operator==(const PlanBound&) const = default;
};
// In words, for after the time of a step; `least` is the bound as text:
//   ", at least 1.20 ms (gap 0.100%, cut short)"    "; heuristic gives no bound"
//   ", at least 1.20 ms with layers alike (gap 0.000%, optimal)"
std::string to_string(const PlanBound& bound, const std::string& least);

struct PlanMemory {
  std::optional<int64_t> limit;  // bytes that the plan may hold on one device
  double share = 1;              // of what the device has: the rest is not for programs
  int64_t peak = 0;              // over the schedule, by the planner's count
  std::string peak_at;           // the op at which it is reached
  int64_t arguments = 0;         // of which arguments
  bool operator==(const PlanMemory&) const = default;
};

// "80.00 GiB, of which programs can use 60.00 GiB", or "80.00 GiB" if they can use all of it.
std::string limit_text(int64_t limit, double share, BytesStyle style);

// What people compare steps by (figures.h).
struct PlanFigures {
  double model_flops = 0;       // of a step on whole tensors
  double recomputed_flops = 0;  // what is computed again besides
  bool is_of_program = false;   // model_flops may count values that are computed again
  std::string dtype;            // of most of them; "tf32" if f32 runs so
  double peak_flops = 0;        // per second, of all devices; 0: the profile has no peak
  double utilization = 0;       // MFU: model_flops / seconds / peak_flops
  std::string items;            // "tokens" or "samples"; empty: not known
  double items_per_second = 0;
  // Seconds of a step by what limits them, in the order in which they are printed.
  struct Share {
    std::string what;
    double seconds = 0;
    bool operator==(const Share&) const = default;
  };
  std::vector<Share> limits;
  bool operator==(const PlanFigures&) const = default;
};

struct Plan {
  static constexpr int kVersion = 1;

  int version = kVersion;
  std::string module;       // its name
  std::string source;       // where it came from: a path, or model:...; empty: not known
  std::string entry;        // the function that was planned
  std::string fingerprint;  // of its ops and types; see names.h
  MeshPtr mesh;
  // By axis the parts that layouts and reshards may use, major to minor; empty: whole axes alone.
  std::vector<AxisList> parts = {};
  std::string machine;  // name of the profile, or the path of its file
  Objective objective = Objective::Step;
  int64_t trips = 1;  // assumed of loops whose number of trips is not known
  PlanTotals totals;
  PlanBound bound;
  PlanMemory memory;
  std::optional<PlanFigures> figures = {};
  std::vector<PlannedValue> values;  // the arguments, then the rest in the order of the program
  std::vector<PlannedCopy> copies;
  std::vector<PlannedOp> ops;
  std::vector<std::string> notes;  // assumptions: loops of unknown length, pins that were used

  const PlannedValue* find_value(std::string_view name) const;  // null if there is none
  const PlannedOp* find_op(std::string_view name) const;
};

// What the plan is compared by (objective.h): seconds of the step, or of the sum, or bytes.
double objective_value(const Plan& plan);
// What a bound of the solve bounds: seconds of the sum, or bytes.
double bounded_value(const Plan& plan);

// How long a step takes, with its bound, in words. If the machine runs nothing side by side, the
// step is the sum of its parts, and so is the bound:
//   13.20 ms, at least 13.20 ms (gap 0.000%, optimal)
// If collectives overlap, what is exposed of them, and how good the sum is that chose the plan:
//   12.40 ms, at least 11.90 ms (gap 4.032%)
//     10.10 ms compute, 3.00 ms communication of which 2.30 ms exposed
//     without overlap 13.20 ms; the additive model of its schedule has a gap of 0.000%
// Of plans with another objective, that has the bound:
//   12.40 ms, 13.20 ms without overlap, at least 13.20 ms (gap 0.000%, optimal)
//   12.40 ms, 3.2 MiB received by a device, at least 3.2 MiB (gap 0.000%, optimal)
std::string step_text(const Plan& plan, int decimals = 2);

// As JSON and back: every number and every name survive. Throws UserError that names the field.
std::string to_json(const Plan& plan, int indent = 1);
Plan plan_from_json(std::string_view text);
Plan read_plan(const std::string& path);
void write_plan(const Plan& plan, const std::string& path);

// What changed from one plan to another: mesh, limits, totals, then every value and op whose
// layouts differ, as lines of text. Empty if nothing did.
//
//   step: 12.3 ms -> 11.7 ms (-4.9%)
//   exposed: 2.3 ms -> 1.7 ms (-26.1%)
//   arg0: [{"data"}, {}] -> [{}, {"model"}]
std::vector<std::string> diff(const Plan& before, const Plan& after);

}  // namespace cleave::plan
