#include "cleave/rules/propagate/propagation_tables.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/rule_builder.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/removable.h"

namespace cleave {
namespace {

using Op = PropagationTables::Op;

bool is_edge(const Node& node) { return is<op::DataFlowEdge, op::FuncDataFlowEdge>(node); }

class Builder {
 public:
  Builder(const Graph& graph, SpecTable& specs, bool conservative, RunsAlongFn runs_along)
      : graph_(graph), specs_(specs), conservative_(conservative), runs_along_(runs_along) {}

  PropagationTables build() {
    order_nodes();
    count_uses();
    find_edges();
    number_slots();
    number_ops();
    add_function_results();
    add_notifications();
    return std::move(tables_);
  }

 private:
  void order_nodes() {
    for (size_t f = 0; f < graph_.functions.size(); ++f) {
      function_of_name_[graph_.functions[f].name] = static_cast<int>(f);
      if (graph_.functions[f].body.valid()) order_nodes(graph_.functions[f].body);
    }
  }
  // `pre_order_` is the order of visits; `uses_order_` that in which a text reader creates ops,
  // with the ops of a region before the op that holds it.
  void order_nodes(RegionId region) {
    for (NodeId id : graph_.region(region).nodes) {
      pre_order_.push_back(id);
      for (RegionId inner : graph_.node(id).regions) order_nodes(inner);
      uses_order_.push_back(id);
    }
  }

  void count_uses() {
    tables_.use_count.assign(graph_.num_values(), 0);
    tables_.user_begin.assign(graph_.num_values() + 1, 0);
    for (NodeId id : uses_order_)
      for (ValueId operand : graph_.node(id).operands) ++tables_.use_count[operand.index];
    for (size_t v = 0; v < graph_.num_values(); ++v)
      tables_.user_begin[v + 1] = tables_.user_begin[v] + tables_.use_count[v];
    uses_.resize(tables_.user_begin.back());
    std::vector<uint32_t> next(tables_.user_begin.begin(), tables_.user_begin.end() - 1);
    for (NodeId id : uses_order_) {
      const Node& node = graph_.node(id);
      for (uint32_t i = 0; i < node.operands.size(); ++i)
        uses_[next[node.operands[i].index]++] = {id, i};
    }
    tables_.users.reserve(uses_.size());
    for (const Use& use : uses_) tables_.users.push_back(use.node.index);
  }
  std::span<const Use> uses(ValueId value) const {
    return {uses_.data() + tables_.user_begin[value.index], tables_.use_count[value.index]};
  }

  void find_edges() {
    edge_on_.assign(graph_.num_values(), NodeId{});
    for (NodeId id : pre_order_) {
      const Node& node = graph_.node(id);
      if (!is<op::DataFlowEdge>(node)) continue;
      if (edge_owner(graph_, node.operands[0]) != node.operands[0]) continue;
      has_edges_ = true;
      if (tables_.use_count[node.operands[0].index] == 1) edge_on_[node.operands[0].index] = id;
    }
  }

  int32_t add_slot(ValueId value, int32_t spec) {
    tables_.slots.push_back({value, -1, 0});
    tables_.initial.push_back(spec);
    return static_cast<int32_t>(tables_.slots.size() - 1);
  }
  // Specs are shared by attribute: the same attribute object is interned once.
  int32_t intern_shared(const ShardingSpec& spec) { return specs_.intern(spec); }

  void number_slots() {
    tables_.slot_of_value.assign(graph_.num_values(), PropagationTables::kNoSlot);
    for (const Function& function : graph_.functions) {
      if (!function.body.valid()) continue;
      const std::vector<ValueId>& args = graph_.region(function.body).args;
      for (size_t i = 0; i < args.size(); ++i) {
        const ShardingSpec* spec =
            i < function.arg_attrs.size() ? sharding_in(function.arg_attrs[i]) : nullptr;
        tables_.slot_of_value[args[i].index] =
            add_slot(args[i], spec ? intern_shared(*spec) : SpecTable::kNone);
      }
      number_slots(function.body);
    }
    // Owners and targets of an edge share the slot of the edge.
    if (!has_edges_) return;
    for (size_t v = 0; v < graph_.num_values(); ++v) {
      if (!edge_on_[v].valid()) continue;
      const int32_t slot = tables_.slot_of_value[graph_.node(edge_on_[v]).results[0].index];
      const ValueId owner{static_cast<uint32_t>(v)};
      const int32_t unused = std::exchange(tables_.slot_of_value[v], slot);
      if (unused >= 0) {
        tables_.slots[unused].value = {};
        tables_.initial[unused] = SpecTable::kNone;
      }
      for (ValueId target : edge_targets_beside_owner(graph_, owner))
        tables_.slot_of_value[target.index] = slot;
    }
  }
  void number_slots(RegionId region) {
    for (NodeId id : graph_.region(region).nodes) {
      const Node& node = graph_.node(id);
      const std::string_view own = own_sharding_attr(node);
      const bool in_out = has_region_arguments_as_owners(node);
      const Attribute* attr =
          node.results.empty() || node.attrs.empty()
              ? nullptr
              : node.attrs.find(in_out ? "out_shardings" : (own.empty() ? kShardingAttr : own));
      const auto* per_value = attr ? attr->as<ShardingsAttr>() : nullptr;
      const auto* single = attr ? attr->as<ShardingAttr>() : nullptr;
      for (size_t r = 0; r < node.results.size(); ++r) {
        const ValueId value = node.results[r];
        int32_t spec = SpecTable::kNone;
        if (per_value && r < per_value->specs.size()) spec = intern_shared(per_value->specs[r]);
        if (single) spec = intern_shared(single->spec);
        tables_.slot_of_value[value.index] = add_slot(value, spec);
      }
      for (RegionId inner : node.regions) {
        const std::vector<ValueId>& args = graph_.region(inner).args;
        if (flow_of(node) == Flow::Loop) {
          for (size_t i = 0; i < args.size(); ++i)
            tables_.slot_of_value[args[i].index] = tables_.slot_of_value[node.results[i].index];
        } else if (in_out) {
          for (ValueId arg : args) {
            const auto spec = get_sharding(graph_, arg);
            tables_.slot_of_value[arg.index] =
                add_slot(arg, spec ? intern_shared(*spec) : SpecTable::kNone);
          }
        }
        number_slots(inner);
      }
    }
  }

  int32_t add_rule(std::shared_ptr<const OpShardingRule> rule) {
    tables_.rules.push_back(std::make_unique<RuleIndex>(std::move(rule)));
    return static_cast<int32_t>(tables_.rules.size() - 1);
  }
  // Identity rules, which most ops have, are shared by shape.
  int32_t identity_rule_for(const Shape& shape, size_t operands) {
    key_.assign(reinterpret_cast<const char*>(shape.data()), shape.size() * sizeof(int64_t));
    key_.push_back(static_cast<char>(operands));
    key_.push_back(static_cast<char>(operands >> 8));
    auto [it, inserted] = identity_rules_.try_emplace(key_, 0);
    if (inserted)
      it->second = add_rule(std::make_shared<const OpShardingRule>(identity_rule(shape, operands)));
    return it->second;
  }

  bool all_shapes_equal(const Node& node) const {
    if (node.results.size() != 1) return false;
    const Shape& shape = graph_.type(node.results[0]).shape;
    for (ValueId operand : node.operands)
      if (graph_.type(operand).shape != shape) return false;
    return true;
  }

  int32_t rule_for(const Node& node) {
    const bool own_rule = !node.attrs.empty() && node.attrs.has(kShardingRuleAttr);
    if (!own_rule && node.def->has(kElementwise) && node.def->rule && all_shapes_equal(node))
      return identity_rule_for(graph_.type(node.results[0]).shape, node.operands.size());
    if (!own_rule && is<op::ShardingConstraint>(node))
      return identity_rule_for(graph_.type(node.results[0]).shape, 1);
    auto rule = op_rule(graph_, node, conservative_).propagation;
    if (rule && runs_along_ && !own_rule) rule = blocked_where_whole(node, *rule);
    return rule ? add_rule(rule) : PropagationTables::kNoRule;
  }

  std::shared_ptr<const OpShardingRule> blocked_where_whole(const Node& node,
                                                            OpShardingRule rule) const {
    const std::vector<bool> runs = runs_along_(graph_, node, rule);
    for (size_t f = 0; f < runs.size(); ++f)
      if (!runs[f]) rule.factors[f].blocked = true;
    return std::make_shared<const OpShardingRule>(std::move(rule));
  }

  void check_type(const Node& node, const Type& type) const {
    if (type.kind == Type::Kind::Tuple)
      throw_user("propagation does not support tuples: {} has a result of type {}", node.name(),
                 to_string(type));
    if (type.is_tensor() && !type.has_static_shape())
      throw_user(
          "propagation supports only ranked tensors of static shape: {} has a result of type {}",
          node.name(), to_string(type));
  }

  void classify(const Node& node, Op& op) const {
    op.op_class = propagation_class(graph_, node);
    op.elementwise =
        op.op_class == PropagationClass::Elementwise || op.op_class == PropagationClass::Barrier;
    if (op.op_class != PropagationClass::Barrier) return;
    const std::string_view direction = node.attrs.get_string("allowed_direction");
    op.allowed = direction == "FORWARD"    ? Direction::Forward
                 : direction == "BACKWARD" ? Direction::Backward
                                           : Direction::None;
  }

  void add_edge_op(const Node& node, Op& op) {
    const ValueId owner = node.operands[0];
    std::vector<ValueId> sources;
    if (is<op::DataFlowEdge>(node)) {
      if (!data_flow_op_of(graph_, owner).valid())
        throw_user(
            "sdy.data_flow_edge: its input is neither a result nor an argument of an op "
            "that values flow through");
      sources = edge_sources(graph_, owner);
      const NodeId op_id = data_flow_op_of(graph_, owner);
      const Node& data_flow = graph_.node(op_id);
      if (is<op::ManualComputation>(data_flow)) {
        const bool argument = !graph_.value(owner).producer.valid();
        const auto outer = get_shardings(data_flow, argument ? "in_shardings" : "out_shardings");
        op.manual_edge = static_cast<int32_t>(tables_.manual_edges.size());
        tables_.manual_edges.push_back({op_id, argument, outer.at(graph_.value(owner).index)});
      }
    } else {
      sources = function_edge_sources(owner);
    }
    if (sources.empty()) return;
    op.rule = identity_rule_for(graph_.type(node.results[0]).shape, sources.size());
    op.num_operands = static_cast<uint16_t>(sources.size());
    for (ValueId source : sources) tables_.tensors.push_back(tables_.slot_of_value[source.index]);
    tables_.tensors.push_back(tables_.slot_of_value[node.results[0].index]);
  }

  // Of a function's argument: the operands of its calls; of a call's result: what the callee
  // returns.
  std::vector<ValueId> function_edge_sources(ValueId owner) {
    const Value& value = graph_.value(owner);
    std::vector<ValueId> sources;
    if (value.producer.valid()) {
      const Node& call = graph_.node(value.producer);
      const auto it = function_of_name_.find(std::string(callee_name(call)));
      if (it == function_of_name_.end()) return sources;
      const Function& callee = graph_.functions[it->second];
      if (callee.body.valid())
        sources.push_back(graph_.node(graph_.terminator(callee.body)).operands[value.index]);
      return sources;
    }
    const int function = function_of(graph_, value.region);
    for (NodeId id : calls_of(function)) sources.push_back(graph_.node(id).operands[value.index]);
    return sources;
  }
  const std::vector<NodeId>& calls_of(int function) {
    if (calls_.empty()) {
      calls_.resize(graph_.functions.size());
      for (NodeId id : pre_order_) {
        const Node& node = graph_.node(id);
        if (!is<op::Call>(node)) continue;
        const auto it = function_of_name_.find(std::string(callee_name(node)));
        if (it != function_of_name_.end()) calls_[it->second].push_back(id);
      }
    }
    return calls_[function];
  }

  void number_ops() {
    tables_.op_of_node.assign(graph_.num_nodes(), -1);
    tables_.ops.reserve(pre_order_.size());
    for (NodeId id : pre_order_) {
      const Node& node = graph_.node(id);
      if (is_terminator(node)) continue;
      for (ValueId result : node.results) check_type(node, graph_.type(result));
      Op op;
      op.node = id;
      op.first_tensor = static_cast<uint32_t>(tables_.tensors.size());
      op.removable = is_removable(graph_, node);
      classify(node, op);
      if (is_edge(node)) {
        add_edge_op(node, op);
      } else {
        op.num_operands = static_cast<uint16_t>(node.operands.size());
        if (op.op_class == PropagationClass::Barrier) {
          op.rule = identity_rule_for(graph_.type(node.results[0]).shape, 1);
        } else {
          op.rule = rule_for(node);
        }
        if (op.rule != PropagationTables::kNoRule) {
          for (ValueId operand : node.operands)
            tables_.tensors.push_back(tables_.slot_of_value[operand.index]);
          for (ValueId result : node.results)
            tables_.tensors.push_back(tables_.slot_of_value[result.index]);
        } else {
          note_missing_rule(id, node);
        }
      }
      op.num_tensors = static_cast<uint16_t>(tables_.tensors.size() - op.first_tensor);
      tables_.op_of_node[id.index] = static_cast<int32_t>(tables_.ops.size());
      tables_.ops.push_back(op);
    }
  }

  void note_missing_rule(NodeId id, const Node& node) {
    if (node.operands.empty() || node.results.empty() || is_data_flow_op(node)) return;
    if (is<op::Call>(node) || node.name().starts_with("sdy.")) return;
    bool inside_reducer = false;
    for (RegionId region = node.parent; region.valid();) {
      const NodeId owner = graph_.region(region).owner;
      if (!owner.valid()) break;
      inside_reducer |= !is_data_flow_op(graph_.node(owner));
      region = graph_.node(owner).parent;
    }
    if (!inside_reducer) tables_.without_rule.push_back(id);
  }

  // Results of the main function, and of functions that nobody calls.
  void add_function_results() {
    const int main = main_function(graph_);
    for (size_t f = 0; f < graph_.functions.size(); ++f) {
      const Function& function = graph_.functions[f];
      if (!function.body.valid() || graph_.region(function.body).nodes.empty()) continue;
      if (main >= 0 ? static_cast<int>(f) != main : !calls_of(static_cast<int>(f)).empty())
        continue;
      const Node& terminator = graph_.node(graph_.terminator(function.body));
      for (size_t i = 0; i < terminator.operands.size(); ++i) {
        const Type& type = graph_.type(terminator.operands[i]);
        if (!type.is_tensor() || !type.has_static_shape()) continue;
        const ShardingSpec* spec =
            i < function.result_attrs.size() ? sharding_in(function.result_attrs[i]) : nullptr;
        const auto slot = static_cast<int32_t>(tables_.slots.size());
        tables_.slots.push_back({{}, static_cast<int32_t>(f), static_cast<uint32_t>(i)});
        tables_.initial.push_back(spec ? intern_shared(*spec) : SpecTable::kNone);
        tables_.function_results.push_back({tables_.slot_of_value[terminator.operands[i].index],
                                            slot, identity_rule_for(type.shape, 1)});
      }
    }
  }

  void notify_op(NodeId node, uint32_t flag = 0) {
    const int32_t op = tables_.op_of_node[node.index];
    if (op >= 0 && tables_.ops[op].rule != PropagationTables::kNoRule)
      tables_.notify.push_back(static_cast<uint32_t>(op) | flag);
  }
  void notify_use(const Use& use) {
    if (has_edges_) {
      const ValueId owner = edge_owner_of_source(graph_, use.node, use.operand);
      if (owner.valid() && edge_on_[owner.index].valid()) {
        const bool into_region = !graph_.value(owner).producer.valid();
        notify_op(edge_on_[owner.index], into_region ? PropagationTables::kLastStage : 0);
        return;
      }
    }
    const Node& user = graph_.node(use.node);
    if (is<op::Call>(user)) {
      const auto it = function_of_name_.find(std::string(callee_name(user)));
      if (it == function_of_name_.end() || !graph_.functions[it->second].body.valid()) return;
      notify_users(graph_.region(graph_.functions[it->second].body).args[use.operand]);
    } else if (is<op::FuncReturn>(user) || user.name() == "return") {
      const int function = function_of(graph_, user.parent);
      if (function >= 0)
        for (NodeId call : calls_of(function)) notify_users(graph_.node(call).results[use.operand]);
    } else {
      notify_op(use.node);
    }
  }
  // The last use first: the list is a stack, so that the first use is visited first. Uses that
  // moved from the owner of an edge to the edge stand the other way round.
  void notify_users(ValueId value) {
    const std::span<const Use> all = uses(value);
    const NodeId producer = graph_.value(value).producer;
    const bool moved = producer.valid() && is_edge(graph_.node(producer)) && [&] {
      const NodeId op = data_flow_op_of(graph_, graph_.node(producer).operands[0]);
      return !op.valid() || !is<op::NamedComputation>(graph_.node(op)) ||
             !graph_.value(graph_.node(producer).operands[0]).producer.valid();
    }();
    for (size_t i = 0; i < all.size(); ++i) notify_use(moved ? all[i] : all[all.size() - 1 - i]);
  }

  void add_notifications() {
    tables_.notify_begin.reserve(tables_.slots.size() + 1);
    tables_.notify.reserve(2 * uses_.size());
    for (const PropagationTables::Slot& slot : tables_.slots) {
      tables_.notify_begin.push_back(static_cast<uint32_t>(tables_.notify.size()));
      if (!slot.value.valid()) continue;
      const NodeId producer = graph_.value(slot.value).producer;
      if (producer.valid()) {
        const Node& node = graph_.node(producer);
        if (is<op::DataFlowEdge>(node))
          for (ValueId target : edge_targets_beside_owner(graph_, node.operands[0]))
            notify_users(target);
        notify_op(producer);
      }
      notify_users(slot.value);
    }
    tables_.notify_begin.push_back(static_cast<uint32_t>(tables_.notify.size()));
  }

  const Graph& graph_;
  SpecTable& specs_;
  const bool conservative_;
  const RunsAlongFn runs_along_;
  PropagationTables tables_;
  std::vector<NodeId> pre_order_, uses_order_;
  std::vector<Use> uses_;
  std::vector<NodeId> edge_on_;
  bool has_edges_ = false;
  std::unordered_map<std::string, int> function_of_name_;
  std::vector<std::vector<NodeId>> calls_;
  std::unordered_map<std::string, int32_t> identity_rules_;
  std::string key_;
};

}  // namespace

PropagationTables build_propagation_tables(const Graph& graph, SpecTable& specs, bool conservative,
                                           RunsAlongFn runs_along) {
  return Builder(graph, specs, conservative, runs_along).build();
}

}  // namespace cleave
