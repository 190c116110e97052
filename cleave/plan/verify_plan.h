#pragma once

#include <string>
#include <vector>

#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"
#include "cleave/plan/shrink.h"

namespace cleave::plan {

struct VerifyPlanOptions {
  bool keep_sizes = false;  // never on smaller tensors
  // Above these a program runs on smaller tensors: FLOPs of the whole step, bytes of its arguments.
  double most_flops = 2e9;
  double most_bytes = 64e6;
  uint64_t seed = 1;  // of the arguments
  ShrinkOptions shrink;
};

// One kind of communication along the same axes: what the program should do and what it did. A plan
// counts the dearest of several branches, and as many trips as it was told of loops that do not say
// how many they make; the run takes the branches and makes the trips that its arguments ask for.
struct CollectiveCheck {
  std::string kind, axes;
  double planned = 0;   // executions per step
  double counted = 0;   // in the program, with branches and trips as planned
  double expected = 0;  // in the program, with the branches and trips that one device took
  double executed = 0;
  // Received by one device, for the sizes that ran, as plans count it (CollectiveTotal::bytes): an
  // all_reduce is a ring.
  double received_bytes = 0;
  // The same as the log of the run counts it, foreseen and measured: virtual devices complete an
  // all_reduce from the parts of all others.
  double predicted_log = 0, measured_log = 0;
  bool good() const {
    return planned == counted && expected == executed && predicted_log == measured_log;
  }
};

// What a plan says, and what happened when it was run on virtual devices.
struct PlanVerification {
  std::string mesh;                  // that ran
  std::vector<std::string> changes;  // of sizes, empty: it ran as it is
  bool same_program = false;         // without its communication, the program is the module
  double planned_seconds = 0,
         program_seconds = 0;  // the plan's total, and the sum over the program
  // The same of the schedule, in which collectives may overlap with computation.
  double planned_step = 0, program_step = 0;
  std::vector<std::string> differences;  // results that differ, in words
  std::string unsteady;  // numbers that roundings move as far as they differ (compare_runs.h)
  size_t num_results = 0;
  double max_difference = 0, magnitude = 0;
  std::vector<CollectiveCheck> collectives;
  int64_t predicted_peak = 0, measured_peak = 0;
  // Whether every condition took the same branch whenever it was asked. Otherwise the prediction is
  // for the worst order of them, which a run need not meet.
  bool one_way = true;

  bool results_good() const { return differences.empty(); }
  bool seconds_good() const;
  bool step_good() const;
  bool collectives_good() const;
  bool memory_good() const;  // within 5% and a few KiB of libraries
  bool good() const {
    return same_program && results_good() && seconds_good() && step_good() && collectives_good() &&
           memory_good();
  }
};

// Partitions the module as planned, makes it small if it is large, runs it on virtual devices
// and on one, and compares results, collectives, bytes and memory with what was said of them.
PlanVerification verify_plan(const Plan& plan, const Graph& graph, const MachineProfile& profile,
                             const VerifyPlanOptions& options = {});

// A line per check, "ok" or what is wrong, and a last line with the verdict.
std::string to_string(const PlanVerification& verification);

}  // namespace cleave::plan
