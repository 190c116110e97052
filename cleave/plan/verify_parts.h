#pragma once

#include <string>
#include <vector>

#include "cleave/kernels/array.h"
#include "cleave/plan/verify_plan.h"
#include "cleave/spmd/program.h"

// What verify_plan and verify_on_xla share.
namespace cleave::plan {

// Random numbers as models have them: weights that do not blow up rounding, and moments so small,
// and not negative, that what becomes of them shows the gradients.
std::vector<Array> verification_arguments(const Program& program, uint64_t seed);

// The planned program in sizes that can be run here, and the module that one device runs.
struct RunnableProgram {
  Program program;
  Graph whole;
  std::vector<std::string> changes;  // of sizes, empty: as it is
};
// Without the ops that only speak of layouts. Programs have them in the bodies of manual
// computations alone, which are taken as they are written.
Graph without_layout_ops(Graph flat);
RunnableProgram runnable(Program program, const VerifyPlanOptions& options);

// The results of several devices beside those of one, within the roundings of the types in use.
struct ResultCheck {
  std::vector<std::string> differences;  // results that differ, in words
  std::string unsteady;  // numbers that roundings move as far as they differ (compare_runs.h)
  size_t num_results = 0;
  double max_difference = 0, magnitude = 0;
};
ResultCheck check_results(const Graph& whole, const std::string& entry,
                          const std::vector<Array>& args, const std::vector<Array>& expected,
                          const std::vector<Array>& sharded);
// A line, and one for each difference.
std::string to_string(const ResultCheck& check);

}  // namespace cleave::plan
