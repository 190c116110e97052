#include <algorithm>

#include "cleave/analyze/kernels.h"
#include "cleave/core/error.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/scalar_code.h"
#include "cleave/graph/verify.h"
#include "cleave/plan/names.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave::plan {
namespace {

class Flattener {
 public:
  Flattener(const Graph& source, Graph& target)
      : source_(source), target_(target), clone_(source, target, ValueMap(source.num_values())) {
    clone_.rewrite = [this](NodeId id, RegionId to) { return inlined(id, to); };
  }

  void run(const Function& function) {
    active_.push_back(function.name);
    clone_.function(function);
    clone_.rewrite = nullptr;
    copy_called_functions();
  }

 private:
  // Calls and named computations become what they run. Scalar code inside other ops stays.
  bool inlined(NodeId id, RegionId to) {
    const Node& node = source_.node(id);
    if (const Function* callee = callee_of(node)) {
      inline_region(id, callee->body, to, callee->name);
      return true;
    }
    if (flow_of(node) == Flow::Named) {
      inline_region(id, node.regions[0], to, {});
      return true;
    }
    if (node.regions.empty() || is_planned_inside(node)) return false;
    Cloner(source_, target_, &clone_.values()).copy(id, to);
    return true;
  }

  const Function* callee_of(const Node& node) const {
    if (flow_of(node) != Flow::Call) return nullptr;
    const Function& callee = callee_with_body(source_, node);
    if (std::find(active_.begin(), active_.end(), callee.name) != active_.end())
      throw_user("function @{} calls itself and cannot be planned", callee.name);
    return &callee;
  }

  void inline_region(NodeId call, RegionId body, RegionId to, const std::string& name) {
    active_.push_back(name);
    clone_.inline_region(call, body, to);
    active_.pop_back();
  }

  // Functions that scalar code inside ops still calls.
  void copy_called_functions() {
    for (uint32_t i = 0; i < target_.num_nodes(); ++i) {
      for (const std::string& name : functions_named_by(target_.node({i}))) {
        if (target_.find_function(name)) continue;
        const Function* function = source_.find_function(name);
        if (function && function->body.valid()) clone_.function(*function);
      }
    }
  }

  const Graph& source_;
  Graph& target_;
  Cloner clone_;
  std::vector<std::string> active_;
};

}  // namespace

bool is_planned_inside(const Node& node) {
  const Flow flow = flow_of(node);
  return flow == Flow::Loop || flow == Flow::Branches;
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

Graph flatten(const Graph& graph, std::string_view entry, const MachineProfile& profile) {
  Graph flat = flatten(graph, entry);
  analyze::mark_kernels(flat, entry, profile);
  return flat;
}

}  // namespace cleave::plan
