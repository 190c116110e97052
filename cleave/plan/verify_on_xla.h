#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/plan/verify_plan.h"
#include "cleave/spmd/program.h"

namespace cleave::plan {

// All collectives of one kind: what the plan's program moves, what the module asks XLA for, and
// what XLA compiled. Bytes that one device receives in a step, counted as in plans.
struct XlaCollectiveCheck {
  std::string kind;  // as XLA names it
  double planned = 0, asked = 0, compiled = 0;
  double widened = 0;  // what a compiler adds to `asked` that moves bf16 as f32
  double planned_executions = 0, asked_executions = 0, compiled_executions = 0;
};

// What a plan says, and what happened when XLA ran it.
struct XlaVerification {
  std::string engine;                // plugin, platform, devices
  std::string mesh;                  // that ran
  std::vector<std::string> changes;  // of sizes, empty: it ran as it is
  std::vector<std::string> differences;
  std::string unsteady;
  size_t num_results = 0;
  double max_difference = 0, magnitude = 0;
  std::vector<XlaCollectiveCheck> collectives;
  bool is_uneven = false;                  // arguments or values in shards of different sizes
  std::vector<std::string> unknown_loops;  // whose trips XLA does not know
  int64_t planned_arguments = 0, compiled_arguments = 0;
  int64_t planned_peak = 0, compiled_peak = 0;  // the second: arguments, results, temporaries
  // What the compiler that ran it was expected to hold; nothing if none is known for it.
  std::optional<int64_t> predicted_peak;

  bool results_good() const { return differences.empty(); }
  // The module asks for the plan's bytes, kind by kind; for more of them only if shards are uneven,
  // which travel padded.
  bool asked_good() const;
  // XLA moves no more than it was asked for, in all; for CPUs it moves bf16 as f32. It may move
  // less: it takes out of a loop what does not change there, and joins what is the same.
  bool compiled_good() const;
  bool arguments_good() const;
  // Within 15%. It is an estimate, and no part of good().
  bool memory_good() const;
  bool good() const {
    return results_good() && asked_good() && compiled_good() && arguments_good();
  }
};

// Partitions the module as planned, makes it small if it is large, and runs it by `engine` ("xla",
// "xla:PLUGIN") on as many devices as the mesh has, and by Cleave on one; compares results, and
// what XLA compiled with the plan. Memory is compared with what this compiler was expected to hold
// for the same program, and set beside the plan's, which is that of another machine.
XlaVerification verify_on_xla(const Plan& plan, const Graph& graph, const MachineProfile& profile,
                              const std::string& engine, const VerifyPlanOptions& options = {});

// Whether an argument or a value lies in shards of different sizes.
bool has_uneven_values(const Program& program);

// A line per check, "ok" or what is wrong, and a last line with the verdict.
std::string to_string(const XlaVerification& verification);

}  // namespace cleave::plan
