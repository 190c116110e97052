#include "cleave/graph/op_def.h"

#include <memory>
#include <mutex>

#include "cleave/core/error.h"
#include "cleave/graph/registered_op.h"

namespace cleave {

OpDef& OpRegistry::add(OpDef def) {
  std::string name = def.name;
  auto [it, fresh] = ops_.emplace(std::move(name), std::move(def));
  internal_check(fresh, "an op is registered twice");
  by_name_.emplace(it->first, &it->second);
  return it->second;
}

void OpRegistry::extend(std::string_view name, const std::function<void(OpDef&)>& change) {
  const auto it = ops_.find(name);
  if (it == ops_.end()) throw_internal("{} is added to, but no op has this name", name);
  change(it->second);
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

namespace {

// The definitions of ops that no family defines.
class OpaqueOps {
 public:
  const OpDef& get(std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (const auto it = ops_.find(name); it != ops_.end()) return *it->second;
    auto made = std::make_unique<OpDef>();
    made->name = name;
    made->opaque = true;
    made->rule = registered_rule;
    made->partial = registered_partial;
    const OpDef& def = *made;
    ops_.emplace(def.name, std::move(made));
    return def;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string_view, std::unique_ptr<const OpDef>> ops_;
};

}  // namespace

const OpDef* find_op(std::string_view name) { return op_registry().find(name); }

const OpDef& required_op(std::string_view name) {
  const OpDef* def = find_op(name);
  if (!def) throw_internal("there is no op {}", name);
  return *def;
}

const OpDef& op_named(std::string_view name) {
  if (const OpDef* def = find_op(name)) return *def;
  static OpaqueOps& opaque = *new OpaqueOps;  // graphs in static variables outlive destructors
  return opaque.get(name);
}

PropagationClass propagation_class(const Graph& graph, const Node& node) {
  if (node.def->propagation_class) return node.def->propagation_class(graph, node);
  return node.def->has(kElementwise) ? PropagationClass::Elementwise : PropagationClass::Other;
}

}  // namespace cleave
