#include "cleave/graph/manual_axes.h"

#include <vector>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

const ManualAxesAttr* manual_axes_of(const Node& node) {
  const Attribute* attribute = node.attrs.find("manual_axes");
  return attribute ? attribute->as<ManualAxesAttr>() : nullptr;
}

// The functions that a node names: callee, decomposition, called_computations.
void for_each_symbol(const Attribute& attribute, const auto& visit) {
  if (const auto* symbol = attribute.as<SymbolRefAttr>()) visit(symbol->root);
  if (const auto* list = attribute.as<ArrayAttr>())
    for (const Attribute& element : list->elements) for_each_symbol(element, visit);
}

class ManualWalk {
 public:
  explicit ManualWalk(const Graph& graph) : graph_(graph) {}

  // Visits nodes with the axes that are manual around them, until no function learns of more.
  void run(const auto& visit) {
    std::set<std::string> todo;
    for (const Function& function : graph_.functions) todo.insert(function.name);
    while (!todo.empty()) {
      const std::string name = *todo.begin();
      todo.erase(todo.begin());
      const Function* function = graph_.find_function(name);
      if (!function || !function->body.valid()) continue;
      walk(function->body, around_[name], visit, todo);
    }
  }
  const std::map<std::string, AxisNames>& around() const { return around_; }

 private:
  void walk(RegionId region, const AxisNames& axes, const auto& visit,
            std::set<std::string>& todo) {
    for (NodeId id : graph_.region(region).nodes) {
      const Node& node = graph_.node(id);
      visit(node, axes);
      if (!axes.empty())
        for (const NamedAttribute& entry : node.attrs.entries())
          for_each_symbol(entry.value, [&](const std::string& name) {
            AxisNames& known = around_[name];
            const size_t before = known.size();
            known.insert(axes.begin(), axes.end());
            if (known.size() != before) todo.insert(name);
          });
      if (node.regions.empty()) continue;
      const AxisNames inside = manual_axes_inside(node, axes);
      for (RegionId inner : node.regions) walk(inner, inside, visit, todo);
    }
  }

  const Graph& graph_;
  std::map<std::string, AxisNames> around_;
};

// The first axis of a spec that is manual; null if there is none.
const std::string* manual_axis_in(const ShardingSpec& spec, const AxisNames& axes) {
  if (!spec.mesh) return nullptr;
  const auto find = [&](const AxisList& list) -> const std::string* {
    for (const AxisRef& ref : list)
      if (const auto it = axes.find(spec.mesh->axes[ref.axis].name); it != axes.end()) return &*it;
    return nullptr;
  };
  for (const DimSpec& dim : spec.dims)
    if (const std::string* name = find(dim.axes)) return name;
  if (const std::string* name = find(spec.replicated)) return name;
  return find(spec.partial);
}

void check_spec(const Node& node, const ShardingSpec& spec, const AxisNames& axes) {
  if (const std::string* name = manual_axis_in(spec, axes))
    throw_user(
        "{}: {} operates on axis \"{}\" which is already bound by a parent "
        "sdy.manual_computation op: values are local along it there; leave it out",
        node.name(), to_string(spec), *name);
}

void check_node(const Node& node, const AxisNames& axes) {
  if (axes.empty()) return;
  if (const ManualAxesAttr* own = manual_axes_of(node))
    for (const std::string& name : own->axes)
      if (axes.contains(name))
        throw_user(
            "{}: operates on axis \"{}\" which is already bound by a parent "
            "sdy.manual_computation op",
            node.name(), name);
  for (const NamedAttribute& entry : node.attrs.entries()) {
    if (const auto* one = entry.value.as<ShardingAttr>()) check_spec(node, one->spec, axes);
    if (const auto* many = entry.value.as<ShardingsAttr>())
      for (const ShardingSpec& spec : many->specs) check_spec(node, spec, axes);
  }
}

}  // namespace

AxisNames manual_axes_inside(const Node& node, const AxisNames& outer) {
  AxisNames axes = outer;
  if (const ManualAxesAttr* own = manual_axes_of(node))
    axes.insert(own->axes.begin(), own->axes.end());
  return axes;
}

std::map<std::string, AxisNames> manual_axes_around(const Graph& graph) {
  ManualWalk walk(graph);
  walk.run([](const Node&, const AxisNames&) {});
  return walk.around();
}

void verify_manual_axes(const Graph& graph) {
  ManualWalk walk(graph);
  walk.run(check_node);
  for (const auto& [name, axes] : walk.around()) {
    const Function* function = graph.find_function(name);
    if (!function) continue;
    for (const auto* dicts : {&function->arg_attrs, &function->result_attrs})
      for (const AttrDict& attrs : *dicts) {
        const Attribute* value = attrs.find("sdy.sharding");
        const auto* sharding = value ? value->as<ShardingAttr>() : nullptr;
        const std::string* axis = sharding ? manual_axis_in(sharding->spec, axes) : nullptr;
        if (axis)
          throw_user(
              "function @{}: {} operates on axis \"{}\" which is already bound by a "
              "sdy.manual_computation op that calls it",
              name, to_string(sharding->spec), *axis);
      }
  }
}

}  // namespace cleave
