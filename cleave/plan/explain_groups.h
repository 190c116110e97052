#pragma once

#include <string>
#include <vector>

#include "cleave/analyze/program_cost.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/bound_plan.h"

namespace cleave::plan {

// What a step spends its time on: ops of one kind that run alike, and changes of layout of like
// tensors for like users, count together, as the layers of a model do.
//
//   32 times dot_general, such as dot_general.7
//   32 times all_gather "data" of tensor<4096x14336xbf16> for dot_general, such as dot_general.7
struct CostGroup {
  std::string what;     // "dot_general", "all_gather \"data\" for dot_general"
  std::string example;  // an op by name
  std::string type;     // of the result, or of what is moved
  std::string layouts;  // "[{\"data\"}, {}], [{}, {}] -> [{\"data\"}, {}]"
  size_t count = 0;     // places in the program
  double times = 0;     // executions a step
  double seconds = 0;   // of all of them
};
// The dearest first; their seconds sum up to the plan's.
std::vector<CostGroup> cost_groups(const BoundPlan& bound, const MachineProfile& profile);

// In what layouts an op takes its operands and leaves its results; of many operands the first
// three.
//   [{"data"}, {}], [{}, {}] -> [{"data"}, {}]
std::string layouts_text(const PlannedOp& op);

// Arguments of one kind, type and layout that serve alike.
//
//   [0].layers[*].attention.q    32 x tensor<4096x4096xbf16>    [{"data"}, {"model"}]
//       column-parallel over "model"; fully sharded (gathered for use) over "data"
struct ArgumentGroup {
  std::string role;  // "parameters", "optimizer state", "inputs"
  std::string name;  // numbers in which they differ are stars; "arg2, arg13, ..." without such
  size_t count = 0;
  std::string type;
  std::string layout;
  std::string pattern;          // in words
  std::vector<size_t> members;  // arguments by number
};
std::vector<ArgumentGroup> argument_groups(const BoundPlan& bound, const Program& program);

}  // namespace cleave::plan
