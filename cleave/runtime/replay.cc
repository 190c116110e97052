#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/replay_plan.h"
#include "cleave/runtime/trace_scope.h"

namespace cleave {
namespace {

// Adds values that are not in the list yet.
void add_new(std::vector<ValueId>& list, const std::vector<ValueId>& values) {
  for (ValueId value : values)
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

class Replayer {
 public:
  explicit Replayer(const Graph& graph, ReplayPlan* plan = nullptr)
      : graph_(graph), tensors_(graph.num_values()), plan_(plan) {}

  std::vector<Tensor> run(const Function& function, std::span<const Tensor> args) {
    const Region& body = graph_.region(function.body);
    for (size_t i = 0; i < body.args.size(); ++i) tensors_[body.args[i].index] = args[i];
    for (NodeId id : body.nodes) {
      const Node& node = graph_.node(id);
      if (node.def->has(kTerminator)) {
        if (plan_) plan_->results = indices(node.operands);
        return lookup(node.operands);
      }
      bind(node.results, flow_of(node) == Flow::Call ? run_call(node) : record_node(id));
    }
    throw_user("function @{} does not return", function.name);
  }

 private:
  std::vector<Tensor> run_call(const Node& node) {
    if (plan_) plan_->valid = false;
    return run(callee_with_body(graph_, node), lookup(node.operands));
  }

  static std::vector<uint32_t> indices(const std::vector<ValueId>& values) {
    std::vector<uint32_t> result;
    for (ValueId value : values) result.push_back(value.index);
    return result;
  }

  std::vector<Tensor> lookup(const std::vector<ValueId>& values) const {
    std::vector<Tensor> tensors;
    for (ValueId value : values) tensors.push_back(tensors_[value.index]);
    return tensors;
  }

  void bind(const std::vector<ValueId>& values, std::vector<Tensor> tensors) {
    for (size_t i = 0; i < values.size(); ++i) tensors_[values[i].index] = std::move(tensors[i]);
  }

  // A module that holds this op alone, its operands and what its regions use as arguments.
  std::vector<Tensor> record_node(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    add_new(inputs, node.operands);
    add_new(inputs, captured_values(graph_, node.regions));
    Graph form;
    std::vector<Type> types;
    for (ValueId input : inputs) types.push_back(graph_.type(input));
    GraphBuilder builder = GraphBuilder::function(form, "main", std::move(types));
    builder.finish(splice_node(graph_, id, form, builder.region(), inputs));
    std::vector<Tensor> results = record_function(std::move(form), lookup(inputs));
    if (plan_ && results.empty()) plan_->valid = false;
    if (plan_ && !results.empty())
      plan_->steps.push_back(
          {results[0].record()->signature, indices(inputs), indices(node.results)});
    return results;
  }

  const Graph& graph_;
  std::vector<Tensor> tensors_;  // by value
  ReplayPlan* plan_;
};

void check_arguments(const Function& function, std::span<const Tensor> args) {
  if (!function.body.valid()) throw_user("function @{} has no body", function.name);
  if (args.size() != function.arg_types.size())
    throw_user("@{} takes {} arguments, {} are given", function.name, function.arg_types.size(),
               args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].valid()) throw_user("@{}: argument {} is an empty Tensor", function.name, i);
    if (!(args[i].type() == function.arg_types[i]))
      throw_user("@{}: argument {} is {}, the function takes {}", function.name, i,
                 to_string(args[i].type()), to_string(function.arg_types[i]));
  }
}

}  // namespace

std::vector<Tensor> replay(const Graph& graph, const Function& function,
                           std::span<const Tensor> args) {
  check_arguments(function, args);
  return Replayer(graph).run(function, args);
}

std::vector<Tensor> replay(const Graph& graph, const Function& function,
                           std::span<const Tensor> args, ReplayPlan& plan) {
  check_arguments(function, args);
  plan = {};
  plan.valid = true;
  plan.num_values = graph.num_values();
  for (const Tensor& arg : args)
    plan.avals.push_back(arg.record()->signature->results[arg.index()]);
  for (ValueId arg : graph.region(function.body).args) plan.args.push_back(arg.index);
  return Replayer(graph, &plan).run(function, args);
}

bool ReplayPlan::fits(std::span<const Tensor> given) const {
  if (!valid || given.size() != avals.size()) return false;
  for (size_t i = 0; i < given.size(); ++i)
    if (!given[i].valid() || given[i].record()->signature->results[given[i].index()] != avals[i])
      return false;
  return true;
}

std::vector<Tensor> ReplayPlan::run(std::span<const Tensor> given) const {
  std::vector<Tensor> values(num_values);
  for (size_t i = 0; i < args.size(); ++i) values[args[i]] = given[i];
  std::vector<Tensor> operands;
  for (const Step& step : steps) {
    operands.clear();
    for (uint32_t operand : step.operands) operands.push_back(values[operand]);
    std::vector<Tensor> made = record_known(step.signature, operands);
    for (size_t i = 0; i < made.size(); ++i) values[step.results[i]] = std::move(made[i]);
  }
  std::vector<Tensor> returned;
  for (uint32_t result : results) returned.push_back(values[result]);
  return returned;
}

}  // namespace cleave
