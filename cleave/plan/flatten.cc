#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/copy.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/scalar_code.h"
#include "cleave/graph/verify.h"
#include "cleave/ops/op.h"
#include "cleave/plan/names.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave::plan {
namespace {

class Flattener {
 public:
  Flattener(const Graph& source, Graph& target)
      : source_(source), target_(target), map_(source.num_values()) {}

  void run(const Function& function) {
    Function copy = function;
    copy.body = target_.add_region();
    for (ValueId arg : source_.region(function.body).args)
      map_[arg.index] = target_.add_argument(copy.body, source_.type(arg), source_.value(arg).name);
    active_.push_back(function.name);
    nodes(function.body, copy.body);
    const Node& end = source_.node(source_.terminator(function.body));
    terminator(end, copy.body);
    target_.functions.push_back(std::move(copy));
    copy_called_functions();
  }

 private:
  void nodes(RegionId from, RegionId to) {
    const std::vector<NodeId>& list = source_.region(from).nodes;
    for (size_t i = 0; i + 1 < list.size(); ++i) node(list[i], to);
  }

  void terminator(const Node& end, RegionId to) {
    const NodeId id = target_.add_node(end.name, map_values(end.operands, map_), {}, end.attrs);
    target_.node(id).location = end.location;
    target_.append(to, id);
  }

  void node(NodeId id, RegionId to) {
    const Node& node = source_.node(id);
    if (const Function* callee = callee_of(node))
      return inline_region(node, callee->body, to, callee->name);
    if (is<op::NamedComputation>(node)) return inline_region(node, node.regions[0], to, {});
    if (!is_planned_inside(node)) {
      copy_node(source_, id, target_, to, map_);
      return;
    }
    std::vector<Type> types;
    for (ValueId result : node.results) types.push_back(source_.type(result));
    const NodeId copy =
        target_.add_node(node.name, map_values(node.operands, map_), std::move(types), node.attrs);
    target_.append(to, copy);
    target_.node(copy).location = node.location;
    for (size_t i = 0; i < node.results.size(); ++i) {
      map_[node.results[i].index] = target_.node(copy).results[i];
      target_.value(target_.node(copy).results[i]).name = source_.value(node.results[i]).name;
    }
    for (RegionId region : node.regions) {
      const RegionId inner = target_.add_region(copy);
      for (ValueId arg : source_.region(region).args)
        map_[arg.index] = target_.add_argument(inner, source_.type(arg), source_.value(arg).name);
      nodes(region, inner);
      terminator(source_.node(source_.terminator(region)), inner);
    }
  }

  const Function* callee_of(const Node& node) const {
    const bool composite = is<op::Composite>(node);
    if (!composite && !is<op::Call>(node)) return nullptr;
    const std::string_view name = node.attrs.get_string(composite ? "decomposition" : "callee");
    const Function* callee = source_.find_function(name);
    if (!callee || !callee->body.valid())
      throw_user("{}: the module has no function @{} with a body", node.name, name);
    if (std::find(active_.begin(), active_.end(), name) != active_.end())
      throw_user("function @{} calls itself and cannot be planned", name);
    return callee;
  }

  void inline_region(const Node& call, RegionId body, RegionId to, const std::string& name) {
    const std::vector<ValueId>& args = source_.region(body).args;
    for (size_t i = 0; i < args.size(); ++i) map_[args[i].index] = map_[call.operands[i].index];
    active_.push_back(name);
    nodes(body, to);
    active_.pop_back();
    const Node& end = source_.node(source_.terminator(body));
    for (size_t i = 0; i < call.results.size(); ++i)
      map_[call.results[i].index] = map_[end.operands[i].index];
  }

  // Functions that scalar code inside ops still calls.
  void copy_called_functions() {
    for (uint32_t i = 0; i < target_.num_nodes(); ++i) {
      for (const std::string& name : functions_named_by(target_.node({i}))) {
        if (target_.find_function(name)) continue;
        const Function* function = source_.find_function(name);
        if (!function || !function->body.valid()) continue;
        Function copy = *function;
        copy.body = target_.add_region();
        copy_region(source_, function->body, target_, copy.body, map_);
        target_.functions.push_back(std::move(copy));
      }
    }
  }

  const Graph& source_;
  Graph& target_;
  ValueMap map_;
  std::vector<std::string> active_;
};

}  // namespace

bool is_planned_inside(const Node& node) {
  return !node.regions.empty() && node.def && node.def->has(kDataFlow) &&
         !is<op::ManualComputation, op::NamedComputation>(node);
}

Graph flatten(const Graph& graph, std::string_view entry) {
  verify_graph(graph);  // whatever plans, prices or explains a module comes here first
  const Function* function = graph.find_function(entry);
  if (!function) throw_user("the module has no function @{}", entry);
  if (!function->body.valid()) throw_user("function @{} has no body", entry);
  Graph flat;
  flat.name = graph.name;
  flat.attrs = graph.attrs;
  flat.meshes = graph.meshes;
  flat.mesh_attrs = graph.mesh_attrs;
  Flattener(graph, flat).run(*function);
  remove_dead_ops(flat);
  return flat;
}

}  // namespace cleave::plan
