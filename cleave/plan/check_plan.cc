#include "cleave/plan/check_plan.h"

#include <map>

#include "cleave/core/error.h"

namespace cleave::plan {
namespace {

class Checker {
 public:
  Checker(const Plan& plan, const Graph& flat, const Names& names)
      : plan_(plan), flat_(flat), names_(names) {}

  void run() {
    check_values();
    for (const PlannedCopy& copy : plan_.copies) {
      const Type& type = type_of(copy.source, copy.name);
      if (!copy.before.empty()) node(copy.before);
      if (!copy.spec.mesh) throw_user("plan: the copy {} has no layout", copy.name);
      check(copy.spec, type, copy.name);
      types_.emplace(copy.name, &type);
    }
    for (const PlannedOp& op : plan_.ops) check_op(op);
    if (!plan_.find_op("return")) throw_user("plan: there is no op return");
  }

 private:
  const Node& node(const std::string& name) const {
    const auto it = names_.node_of.find(name);
    if (it == names_.node_of.end()) throw_user("plan: the module has no op {}", name);
    return flat_.node(it->second);
  }

  const Type& type_of(const std::string& source, const std::string& user) const {
    const auto it = types_.find(source);
    if (it == types_.end())
      throw_user("plan: {} takes {}, which is neither a value nor an earlier copy", user, source);
    return *it->second;
  }

  // Arguments come first, in order; printing a module may change their names.
  void check_values() {
    const std::vector<ValueId>& args = flat_.region(flat_.find_function(plan_.entry)->body).args;
    if (plan_.values.size() < args.size())
      throw_user("plan: it has {} values, and @{} has {} arguments", plan_.values.size(),
                 plan_.entry, args.size());
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      const PlannedValue& value = plan_.values[i];
      const auto it = names_.value_of.find(value.name);
      if (i >= args.size() && it == names_.value_of.end())
        throw_user("plan: the module has no value {}", value.name);
      const Type& type = flat_.type(i < args.size() ? args[i] : it->second);
      check(value.spec, type, value.name);
      types_.emplace(value.name, &type);
    }
  }

  void check_op(const PlannedOp& op) const {
    const Node& node = this->node(op.name);
    if (node.name() != op.op)
      throw_user("plan: {} is a {} here and a {} in the plan", op.name, node.name(), op.op);
    if (node.operands.size() != op.operands.size())
      throw_user("plan: {} has {} operands here and {} in the plan", op.name, node.operands.size(),
                 op.operands.size());
    if (node.results.size() != op.results.size())
      throw_user("plan: {} has {} results here and {} in the plan", op.name, node.results.size(),
                 op.results.size());
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Type& type = flat_.operand_type(node, i);
      if (type_of(op.operands[i].source, op.name) != type)
        throw_user("plan: operand {} of {} is {}, of another type than in the module", i, op.name,
                   op.operands[i].source);
      check(op.operands[i].spec, type, op.name);
    }
    for (size_t i = 0; i < op.results.size(); ++i)
      check(op.results[i], flat_.result_type(node, i), op.name);
  }

  void check(const ShardingSpec& spec, const Type& type, const std::string& name) const {
    const bool ranked = type.is_tensor() && !type.unranked;
    if (spec.mesh ? !ranked : type.has_static_shape())
      throw_user("plan: {} is {}, and {} layout is given", name, to_string(type),
                 ranked ? "no" : "a");
    if (!spec.mesh) return;
    try {
      if (spec.rank() != type.rank()) throw_user("a layout of {} dimensions", spec.rank());
      if (type.has_static_shape() && num_elements(type.shape) > 0) verify(spec, type.shape);
    } catch (const UserError& error) {
      throw_user("plan: {} is {}: {}", name, to_string(type), error.what());
    }
  }

  const Plan& plan_;
  const Graph& flat_;
  const Names& names_;
  std::map<std::string_view, const Type*> types_;  // of values and copies
};

}  // namespace

void check_fits(const Plan& plan, const Graph& flat, const Names& names) {
  Checker(plan, flat, names).run();
}

void check_fits(const Plan& plan, const Graph& graph) {
  const Graph flat = flatten(graph, plan.entry);
  if (const std::string here = fingerprint(flat, plan.entry); here != plan.fingerprint)
    throw_user(
        "plan: it was made for another module (fingerprint {}, this one has {}); plan this module "
        "again",
        plan.fingerprint, here);
  check_fits(plan, flat, name_everything(flat, plan.entry));
}

}  // namespace cleave::plan
