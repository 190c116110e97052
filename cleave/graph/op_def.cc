#include "cleave/graph/op_def.h"

#include "cleave/core/error.h"

namespace cleave {

OpDef& OpRegistry::add(OpDef def) {
  std::string name = def.name;
  auto [it, fresh] = ops_.emplace(std::move(name), std::move(def));
  internal_check(fresh, "an op is registered twice");
  return it->second;
}

void OpRegistry::extend(std::string_view name, const std::function<void(OpDef&)>& change) {
  const auto it = ops_.find(name);
  if (it == ops_.end()) throw_internal("{} is added to, but no op has this name", name);
  change(it->second);
}

const OpDef* OpRegistry::find(std::string_view name) const {
  auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : &it->second;
}

PropagationClass propagation_class(const Graph& graph, const Node& node) {
  if (!node.def) return PropagationClass::Other;
  if (node.def->propagation_class) return node.def->propagation_class(graph, node);
  return node.def->has(kElementwise) ? PropagationClass::Elementwise : PropagationClass::Other;
}

}  // namespace cleave
