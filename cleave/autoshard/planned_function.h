#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cleave/autoshard/tree_spec.h"
#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"
#include "cleave/transforms/compile.h"
#include "cleave/transforms/trace.h"

// What stands behind `autoshard` (autoshard.h): a traced function, its plan, its program.
namespace cleave {

namespace plan {
struct Pin;
struct PlannerOptions;
struct PlannerResult;
}  // namespace plan

struct AutoshardOptions {
  std::string machine = "default";  // that the plan is for: a built-in name, or a JSON file
  std::string memory = {};          // what a device has: "80GiB"; empty: what the machine says
  std::optional<double> memory_share = {};  // of it, for programs; none: what the executor says
  // Layouts of arguments and results, by argument and by result; what has no spec is planned.
  std::vector<TreeSpec> in = {}, out = {};
  // Layouts by name: leaves of arguments ("[0].layers[*].q"; "layers[*].q" if there is one
  // argument), or values of the plan. A star stands for any characters.
  std::vector<std::pair<std::string, PartitionSpec>> pins = {};
  // Arguments whose memory results may take, as in CompileOptions. An argument and the result that
  // takes its place lie alike.
  std::vector<size_t> donate = {};
  plan::Objective objective = plan::Objective::Step;  // what the plan is the best for
  std::string solver = "cleave";  // or "mip", "heuristic", "propagation": docs/guide/planning.md
  bool compiled = true;           // false: op by op, as recorded
  std::string engine = "cleave";  // or "xla", "xla:PLUGIN"
  std::string plan = {};          // a plan file: it is used, and nothing is planned
  bool debug = false;             // what is done and chosen, to standard error, or to `trace`
  std::function<void(const std::string&)> trace = {};  // hears it line by line, debug or not
  double time_limit = 10;                              // seconds of planning at most
  double gap = 0.01;          // a plan this close to its bound is good enough
  bool every_layout = false;  // see PlannerOptions
  bool sub_axes = false;
  std::stop_token stop = {};  // ends planning with the best plan so far
};

// f as a graph (`extract`).
struct Extracted {
  Graph graph;
  std::string json() const;  // docs/graph-json.md
  std::string text() const;  // StableHLO
};

namespace autoshard_detail {

std::vector<Type> types_of(std::span<const Tensor> leaves);
[[noreturn]] void throw_not_planned();
void check_devices(int64_t devices, const AutoshardOptions& options);

// Arguments for the trace of a function that is to be planned: they have no value, and no layout
// but that they are on the mesh, so that the function may ask for layouts.
class WholeArguments {
 public:
  explicit WholeArguments(const MeshPtr& mesh) : mesh_(mesh) {}
  Tensor stand_in(const Type& type) const;

 private:
  MeshPtr mesh_;
  mutable TraceScope scope_;
};

// The leaves of one argument are so many.
struct ArgumentTree {
  const std::type_info* type;
  size_t leaves;
};

struct GivenSpecs {
  std::vector<std::optional<PartitionSpec>> in, out;  // by leaf
};

// A function of certain types of arguments: traced, planned, made ready to run.
class PlannedFunction {
 public:
  // `mesh` null: one of `devices` devices is chosen.
  PlannedFunction(Trace trace, const MeshPtr& mesh, int64_t devices,
                  std::vector<ArgumentTree> arguments, GivenSpecs specs,
                  const AutoshardOptions& options);

  const plan::Plan& plan() const { return plan_; }
  const MachineProfile& profile() const { return profile_; }
  const Graph& graph() const { return graph_; }

  std::vector<Tensor> run(std::span<const Tensor> leaves);
  // Records the ops on the leaves, with the layouts of the plan.
  std::vector<Tensor> replay(std::span<const Tensor> leaves) const;
  // The leaves of an argument of this type, as the plan has them.
  std::vector<Tensor> place(std::vector<Tensor> leaves, const std::type_info& type) const;
  std::string explain() const;
  std::string verify() const;
  std::string description();

 private:
  std::vector<std::string> argument_names() const;
  void annotate(const GivenSpecs& specs);
  std::vector<plan::Pin> value_pins() const;
  plan::PlannerOptions planner_options() const;
  plan::PlannerResult solve_for_any_mesh(const plan::PlannerOptions& how, int64_t devices) const;
  void make_plan(int64_t devices);
  ShardingSpec layout(size_t argument) const;
  compile_detail::Compiled& compiled();
  void say(const std::string& line) const;
  void say_choices() const;

  AutoshardOptions options_;
  std::vector<ArgumentTree> arguments_;
  std::vector<std::string> arg_names_;
  std::vector<Tensor> captures_;
  std::vector<size_t> donated_;  // leaves
  Graph graph_;                  // as traced, with what was given
  MachineProfile profile_;
  MeshPtr mesh_;
  plan::Plan plan_;
  std::mutex running_;                                  // one run at a time
  std::unique_ptr<compile_detail::Compiled> compiled_;  // if it ran
};

}  // namespace autoshard_detail

// The plan of a function.
class FunctionPlan {
 public:
  explicit FunctionPlan(std::shared_ptr<const autoshard_detail::PlannedFunction> planned)
      : planned_(std::move(planned)) {}
  const plan::Plan& operator*() const { return planned_->plan(); }
  const plan::Plan* operator->() const { return &planned_->plan(); }
  operator const plan::Plan&() const { return planned_->plan(); }
  // What was chosen, what it costs, and why.
  std::string explain() const { return planned_->explain(); }
  // Why one op runs as it does, with what other ways would cost; ops go by their names in the plan.
  std::string explain_op(const std::string& op) const;

 private:
  std::shared_ptr<const autoshard_detail::PlannedFunction> planned_;
};

}  // namespace cleave
