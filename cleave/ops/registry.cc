#include "cleave/core/error.h"
#include "cleave/ops/families.h"

namespace cleave {

OpDef& OpRegistry::add(OpDef def) {
  std::string name = def.name;
  auto [it, fresh] = ops_.emplace(std::move(name), std::move(def));
  internal_check(fresh, "an op is registered twice");
  return it->second;
}

const OpDef* OpRegistry::find(std::string_view name) const {
  auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : &it->second;
}

const OpRegistry& op_registry() {
  static const OpRegistry registry = [] {
    OpRegistry r;
    register_elementwise_ops(r);
    register_control_flow_ops(r);
    register_check_ops(r);
    register_transfer_ops(r);
    return r;
  }();
  return registry;
}

const OpDef* find_op(std::string_view name) { return op_registry().find(name); }

}  // namespace cleave
