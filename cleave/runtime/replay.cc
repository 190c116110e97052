#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/trace_scope.h"

namespace cleave {
namespace {

// Values that the regions of a node use and do not define, in the order of first use.
void add_free_values(const Graph& graph, const Node& node, std::vector<ValueId>& found) {
  std::vector<bool> defined(graph.num_values());
  std::vector<ValueId> used;
  auto define = [&](const std::vector<ValueId>& values) {
    for (ValueId value : values) defined[value.index] = true;
  };
  for (RegionId region : node.regions) {
    define(graph.region(region).args);
    graph.walk(region, [&](NodeId id) {
      const Node& inner = graph.node(id);
      for (RegionId nested : inner.regions) define(graph.region(nested).args);
      define(inner.results);
      used.insert(used.end(), inner.operands.begin(), inner.operands.end());
    });
  }
  for (ValueId value : used)
    if (!defined[value.index] && std::find(found.begin(), found.end(), value) == found.end())
      found.push_back(value);
}

class Replayer {
 public:
  explicit Replayer(const Graph& graph) : graph_(graph), tensors_(graph.num_values()) {}

  std::vector<Tensor> run(const Function& function, std::span<const Tensor> args) {
    const Region& body = graph_.region(function.body);
    for (size_t i = 0; i < body.args.size(); ++i) tensors_[body.args[i].index] = args[i];
    for (NodeId id : body.nodes) {
      const Node& node = graph_.node(id);
      if (node.def && node.def->has(kTerminator)) return lookup(node.operands);
      const bool composite = node.name == "stablehlo.composite";
      bind(node.results,
           composite || node.name == "func.call"
               ? run(callee(node, composite ? "decomposition" : "callee"), lookup(node.operands))
               : record_node(node));
    }
    throw_user("function @{} does not return", function.name);
  }

 private:
  const Function& callee(const Node& node, const char* attribute) const {
    const auto name = node.attrs.get_string(attribute);
    const Function* function = graph_.find_function(name);
    if (!function || !function->body.valid())
      throw_user("{}: the module has no function @{} with a body", node.name, name);
    return *function;
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
  std::vector<Tensor> record_node(const Node& node) {
    std::vector<ValueId> inputs;
    for (ValueId operand : node.operands)
      if (std::find(inputs.begin(), inputs.end(), operand) == inputs.end())
        inputs.push_back(operand);
    if (!node.regions.empty()) add_free_values(graph_, node, inputs);
    Graph form;
    std::vector<Type> types;
    for (ValueId input : inputs) types.push_back(graph_.type(input));
    GraphBuilder builder = GraphBuilder::function(form, "main", std::move(types));
    builder.finish(splice_node(graph_, node, form, builder.region(), inputs));
    return record_function(std::move(form), lookup(inputs));
  }

  const Graph& graph_;
  std::vector<Tensor> tensors_;  // by value
};

}  // namespace

std::vector<Tensor> replay(const Graph& graph, const Function& function,
                           std::span<const Tensor> args) {
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
  return Replayer(graph).run(function, args);
}

}  // namespace cleave
