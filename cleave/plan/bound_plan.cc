#include "cleave/plan/bound_plan.h"

#include <string_view>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/plan/names.h"

namespace cleave::plan {
namespace {

class Binder {
 public:
  Binder(const Plan& plan, const Graph& flat)
      : plan_(plan), flat_(flat), names_(name_everything(flat, plan.entry)), bound_{plan, flat} {}

  BoundPlan run() {
    bound_.value_index.assign(flat_.num_values(), -1);
    bound_.op_index.assign(flat_.num_nodes(), -1);
    bind_values();
    for (const PlannedCopy& copy : plan_.copies) bind_copy(copy);
    for (const PlannedOp& op : plan_.ops) bind_op(op);
    bound_.end = bound_.planned(flat_.terminator(bound_.body()));
    if (!bound_.end) throw_user("plan: there is no op return");
    return std::move(bound_);
  }

 private:
  NodeId node(const std::string& name) const {
    const auto it = names_.node_of.find(name);
    if (it == names_.node_of.end()) throw_user("plan: the module has no op {}", name);
    return it->second;
  }

  const BoundSource& source(const std::string& name, const std::string& user) const {
    const auto it = sources_.find(name);
    if (it == sources_.end())
      throw_user("plan: {} takes {}, which is neither a value nor an earlier copy", user, name);
    return it->second;
  }

  // Arguments come first, in order; printing a module may change their names.
  void bind_values() {
    const std::vector<ValueId>& args = flat_.region(bound_.body()).args;
    if (plan_.values.size() < args.size())
      throw_user("plan: it has {} values, and @{} has {} arguments", plan_.values.size(),
                 plan_.entry, args.size());
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      const PlannedValue& value = plan_.values[i];
      const auto it = names_.value_of.find(value.name);
      if (i >= args.size() && it == names_.value_of.end())
        throw_user("plan: the module has no value {}", value.name);
      const ValueId id = i < args.size() ? args[i] : it->second;
      check(value.spec, flat_.type(id), value.name);
      bound_.values.push_back(id);
      if (int& index = bound_.value_index[id.index]; index < 0) index = static_cast<int>(i);
      sources_.emplace(value.name, BoundSource{id});
    }
  }

  void bind_copy(const PlannedCopy& copy) {
    const BoundSource& from = source(copy.source, copy.name);
    const NodeId before = copy.before.empty() ? NodeId{} : node(copy.before);
    if (!copy.spec.mesh) throw_user("plan: the copy {} has no layout", copy.name);
    check(copy.spec, flat_.type(from.value), copy.name);
    const BoundSource made{from.value, static_cast<int>(bound_.copies.size())};
    bound_.copies.push_back({from, before});
    sources_.emplace(copy.name, made);
  }

  void bind_op(const PlannedOp& op) {
    BoundOp bound{node(op.name), {}};
    const Node& node = flat_.node(bound.node);
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
      const BoundSource& from = source(op.operands[i].source, op.name);
      if (flat_.type(from.value) != type)
        throw_user("plan: operand {} of {} is {}, of another type than in the module", i, op.name,
                   op.operands[i].source);
      check(op.operands[i].spec, type, op.name);
      bound.operands.push_back(from);
    }
    for (size_t i = 0; i < op.results.size(); ++i)
      check(op.results[i], flat_.result_type(node, i), op.name);
    if (int& index = bound_.op_index[bound.node.index]; index < 0)
      index = static_cast<int>(bound_.ops.size());
    bound_.ops.push_back(std::move(bound));
  }

  static void check(const ShardingSpec& spec, const Type& type, const std::string& name) {
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
  const Names names_;
  BoundPlan bound_;
  std::unordered_map<std::string_view, BoundSource> sources_;  // values and copies, by name
};

}  // namespace

const ShardingSpec& BoundPlan::spec(const BoundSource& source) const {
  if (source.copy >= 0) return plan.copies[static_cast<size_t>(source.copy)].spec;
  return planned(source.value)->spec;
}

const PlannedValue* BoundPlan::planned(ValueId value) const {
  const int index = value_index[value.index];
  return index < 0 ? nullptr : &plan.values[static_cast<size_t>(index)];
}

const PlannedOp* BoundPlan::planned(NodeId node) const {
  const int index = op_index[node.index];
  return index < 0 ? nullptr : &plan.ops[static_cast<size_t>(index)];
}

BoundPlan bind(const Plan& plan, const Graph& flat) {
  if (const std::string here = fingerprint(flat, plan.entry); here != plan.fingerprint)
    throw_user(
        "plan: it was made for another module (fingerprint {}, this one has {}); plan this module "
        "again",
        plan.fingerprint, here);
  return Binder(plan, flat).run();
}

}  // namespace cleave::plan
