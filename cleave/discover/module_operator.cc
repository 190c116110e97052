#include "cleave/discover/module_operator.h"
#include "cleave/graph/op_rule.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/discover/library.h"
#include "cleave/discover/mesh_check.h"
#include "cleave/discover/op_call.h"
#include "cleave/discover/registry_operator.h"
#include "cleave/graph/verify.h"
#include "cleave/rewrite/simplify.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

// Dimensions of values that have to be split alike: those that share a factor of some op.
class DimClasses {
 public:
  explicit DimClasses(const Graph& graph) : first_(graph.num_values() + 1, 0) {
    for (size_t v = 0; v < graph.num_values(); ++v)
      first_[v + 1] = first_[v] + graph.type(ValueId{static_cast<uint32_t>(v)}).shape.size();
    parent_.resize(first_.back());
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (NodeId id : graph.region(graph.find_function("main")->body).nodes)
      join(graph, graph.node(id));
  }

  size_t of(ValueId value, size_t dim) {
    size_t c = first_[value.index] + dim;
    while (parent_[c] != c) c = parent_[c] = parent_[parent_[c]];
    return c;
  }

 private:
  void join(const Graph& graph, const Node& node) {
    const auto rule = op_rule(graph, node).execution;
    if (!rule || rule->operands.size() != node.operands.size()) return;
    std::vector<std::optional<size_t>> seen(rule->factors.size());
    for (size_t t = 0; t < rule->num_tensors(); ++t) {
      const bool is_operand = t < node.operands.size();
      const ValueId value = is_operand ? node.operands[t] : node.results[t - node.operands.size()];
      for (size_t d = 0; d < rule->tensor(t).size(); ++d) {
        if (rule->tensor(t)[d].empty()) continue;
        std::optional<size_t>& known = seen[rule->tensor(t)[d].front()];
        const size_t c = of(value, d);
        if (known) parent_[c] = *known;
        known = of(value, d);
      }
    }
  }

  std::vector<size_t> first_;  // by value
  std::vector<size_t> parent_;
};

// Where every value is split on one mesh axis, by what splits the operands and, if the operands
// leave it open, the result.
class AxisLayout {
 public:
  AxisLayout(const Graph& graph, DimClasses& classes) : graph_(graph), classes_(classes) {}

  void split(ValueId value, const Placement& placement) {
    if (placement.is_replicate() || placement.is_partial()) return;
    if (placement.dim >= static_cast<int>(graph_.type(value).rank())) return;
    split_.emplace(classes_.of(value, static_cast<size_t>(placement.dim)), placement);
  }

  Placement at(ValueId value) const {
    Placement found;
    for (size_t d = 0; d < graph_.type(value).shape.size(); ++d) {
      const auto it = split_.find(classes_.of(value, d));
      if (it == split_.end()) continue;
      if (!found.is_replicate())
        throw_user("two dimensions of <{}> would be split along one axis",
                   to_string(graph_.type(value).shape));
      found = it->second;
      found.dim = static_cast<int>(d);
    }
    return found;
  }

 private:
  const Graph& graph_;
  DimClasses& classes_;
  std::map<size_t, Placement> split_;  // by class
};

Program program_of(const Graph& graph, const std::vector<Placements>& operands,
                   const Placements& result, const std::vector<int>& sizes) {
  Program program;
  program.graph = graph;
  program.mesh = mesh_of_sizes(sizes);
  program.entry = "main";
  program.layouts.resize(graph.num_values());
  const RegionId body = graph.find_function("main")->body;
  const std::vector<ValueId>& args = graph.region(body).args;
  const std::vector<ValueId>& ends = graph.node(graph.terminator(body)).operands;
  DimClasses classes(graph);
  std::vector<Placements> placements(graph.num_values(), Placements(sizes.size()));
  auto visit_values = [&](const auto& visit) {
    for (ValueId arg : args) visit(arg);
    for (NodeId id : graph.region(body).nodes)
      for (ValueId value : graph.node(id).results) visit(value);
  };
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    AxisLayout layout(graph, classes);
    for (size_t i = 0; i < args.size(); ++i) layout.split(args[i], operands[i][axis]);
    for (ValueId value : ends) layout.split(value, result[axis]);
    visit_values([&](ValueId value) { placements[value.index][axis] = layout.at(value); });
    for (size_t i = 0; i < args.size(); ++i) {
      Placement& found = placements[args[i].index][axis];
      if (operands[i][axis].is_partial() && found.is_replicate()) found = operands[i][axis];
      if (found != operands[i][axis])
        throw_user("operand {} is split with another operand or the result", i);
    }
  }
  visit_values([&](ValueId value) {
    program.layouts[value.index].spec =
        from_placements(placements[value.index], program.mesh, graph.type(value).rank());
  });
  return program;
}

}  // namespace

Operator operator_of_module(std::string name, Graph module) {
  verify_graph(module);
  if (!module.find_function("main")) throw_user("{}: the module has no function @main", name);
  inline_calls(module);
  std::erase_if(module.functions, [](const Function& f) { return f.name != "main"; });
  const Sample sample = sample_of_arguments(module);
  CallFn make = [=](const std::vector<TensorDesc>& operands, const AttrMap&) {
    bool same = operands.size() == sample.operands.size();
    for (size_t i = 0; same && i < operands.size(); ++i)
      same = operands[i].shape == sample.operands[i].shape &&
             operands[i].dtype == sample.operands[i].dtype;
    if (!same)
      throw_user("{}: the shapes of a module are those of its text, ({})", name, to_string(sample));
    return module;
  };
  Operator op = operator_with_graph(name, make, {sample});
  op.localize = [module](const Sample&, const std::vector<Placements>& operands,
                         const Placements& result, const std::vector<int>& mesh) {
    return run_program(program_of(module, operands, result, mesh));
  };
  return op;
}

}  // namespace cleave
