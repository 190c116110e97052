#include <algorithm>

#include "cleave/graph/value_sharding.h"
#include "cleave/rules/propagate/propagation.h"

namespace cleave {

using Op = PropagationTables::Op;

bool PropagationEngine::is_dead(const Op& op) const {
  for (ValueId result : graph_.node(op.node).results)
    if (tables_.use_count[result.index] != 0) return false;
  return true;
}

// Drops an op that nobody uses, with everything inside it, and looks again at the ops that made its
// operands: they may be dead now, or have a single use left.
void PropagationEngine::erase(uint32_t op_index) {
  any_erased_ = true;
  std::vector<ValueId> released;
  auto release = [&](auto&& self, NodeId id) -> void {
    const Node& node = graph_.node(id);
    if (const int32_t op = tables_.op_of_node[id.index]; op >= 0) tables_.ops[op].erased = true;
    for (RegionId region : node.regions)
      for (NodeId inner : graph_.region(region).nodes) self(self, inner);
    for (ValueId operand : node.operands) {
      --tables_.use_count[operand.index];
      released.push_back(operand);
    }
  };
  const NodeId id = tables_.ops[op_index].node;
  release(release, id);
  for (ValueId operand : released) {
    uint32_t other_user = Id<struct NodeTag>::kNone;
    bool two_others = false;
    for (uint32_t u = tables_.user_begin[operand.index]; u < tables_.user_begin[operand.index + 1];
         ++u) {
      const uint32_t user = tables_.users[u];
      const int32_t op = tables_.op_of_node[user];
      if (op >= 0 && tables_.ops[op].erased) continue;
      if (op >= 0) update_single_use(tables_.ops[op]);
      if (user == other_user) continue;
      if (other_user != Id<struct NodeTag>::kNone) two_others = true;
      other_user = user;
    }
    const NodeId producer = graph_.value(operand).producer;
    if (two_others || !producer.valid()) continue;
    if (const int32_t op = tables_.op_of_node[producer.index]; op >= 0 && !tables_.ops[op].erased)
      push(static_cast<uint32_t>(op));
  }
}

void PropagationEngine::drop_erased() {
  if (!any_erased_) return;
  auto prune = [&](auto&& self, RegionId region) -> void {
    std::vector<NodeId>& nodes = graph_.region(region).nodes;
    std::erase_if(nodes, [&](NodeId id) {
      const int32_t op = tables_.op_of_node[id.index];
      return op >= 0 && tables_.ops[op].erased;
    });
    for (NodeId id : nodes)
      for (RegionId inner : graph_.node(id).regions) self(self, inner);
  };
  for (const Function& function : graph_.functions)
    if (function.body.valid()) prune(prune, function.body);
}

// A dimension without elements cannot be split, though it may share a factor with one that can: the
// empty operand of a concatenate, a slice of nothing.
void PropagationEngine::keep_empty_dimensions_whole() {
  for (size_t s = 0; s < spec_.size(); ++s) {
    if (spec_[s] < 0 || spec_[s] == tables_.initial[s]) continue;
    const PropagationTables::Slot& slot = tables_.slots[s];
    const Type& type = slot.value.valid()
                           ? graph_.type(slot.value)
                           : graph_.functions[slot.function].result_types[slot.index];
    if (!type.is_tensor() || std::ranges::find(type.shape, 0) == type.shape.end()) continue;
    ShardingSpec spec = specs_[spec_[s]];
    for (size_t d = 0; d < std::min(spec.rank(), type.shape.size()); ++d)
      if (type.shape[d] == 0) spec.dims[d].axes.clear();
    spec_[s] = specs_.intern(std::move(spec));
  }
}

void PropagationEngine::write_back() {
  drop_erased();
  if (options_.keep_empty_whole) keep_empty_dimensions_whole();
  // One attribute object per spec, shared by all values that have it.
  std::vector<std::optional<Attribute>> single(specs_.size()), per_value(specs_.size());
  auto single_attr = [&](int32_t spec) -> const Attribute& {
    if (!single[spec]) single[spec] = Attribute(ShardingAttr{specs_[spec]});
    return *single[spec];
  };
  auto per_value_attr = [&](int32_t spec) -> const Attribute& {
    if (!per_value[spec]) per_value[spec] = Attribute(ShardingsAttr{{specs_[spec]}});
    return *per_value[spec];
  };
  for (size_t s = 0; s < spec_.size(); ++s) {
    const int32_t spec = spec_[s];
    if (spec < 0 || spec == tables_.initial[s]) continue;
    const PropagationTables::Slot& slot = tables_.slots[s];
    if (!slot.value.valid()) {
      graph_.functions[slot.function].result_attrs[slot.index].set(kShardingAttr,
                                                                   single_attr(spec));
      continue;
    }
    const Value& value = graph_.value(slot.value);
    if (!value.producer.valid()) {
      const RegionId region = value.region;
      if (!graph_.region(region).owner.valid()) {
        const int function = function_of(graph_, region);
        graph_.functions[function].arg_attrs[value.index].set(kShardingAttr, single_attr(spec));
      } else {
        set_sharding(graph_, slot.value, specs_[spec]);
      }
      continue;
    }
    Node& node = graph_.node(value.producer);
    const std::string_view own = own_sharding_attr(node);
    if (!own.empty()) {
      node.attrs.set(own, single_attr(spec));
    } else if (node.results.size() == 1 && !node.name().starts_with("sdy.")) {
      node.attrs.set(kShardingAttr, per_value_attr(spec));
    } else {
      set_sharding(graph_, slot.value, specs_[spec]);
    }
  }
  for (const Op& op : tables_.ops) {
    if (op.erased || op.rule == PropagationTables::kNoRule) continue;
    Node& node = graph_.node(op.node);
    if (options_.keep_rules) {
      if (op.op_class != PropagationClass::Barrier && !node.name().ends_with("data_flow_edge") &&
          !node.attrs.has(kShardingRuleAttr))
        node.attrs.set(kShardingRuleAttr, ShardingRuleAttr{tables_.rules[op.rule]->rule});
    } else if (!node.attrs.empty()) {
      const Attribute* attr = node.attrs.find(kShardingRuleAttr);
      const auto* rule = attr ? attr->as<ShardingRuleAttr>() : nullptr;
      if (rule && !rule->rule->is_custom) node.attrs.erase(kShardingRuleAttr);
    }
  }
}

}  // namespace cleave
