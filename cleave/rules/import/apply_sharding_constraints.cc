#include <algorithm>

#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {
namespace {

bool is_constraint(const Node& node) { return is<op::ShardingConstraint>(node); }
bool is_manual(const Node& node) { return is<op::ManualComputation>(node); }

bool is_closed(const ShardingSpec& spec) {
  return std::none_of(spec.dims.begin(), spec.dims.end(),
                      [](const DimSpec& dim) { return dim.open; });
}

class Applier {
 public:
  explicit Applier(Graph& graph) : graph_(graph) {
    std::vector<NodeId> todo;
    for (const Function& function : graph.functions)
      if (function.body.valid()) collect(function.body, todo);
    if (todo.empty()) return;
    uses_.resize(graph.num_values());
    graph.walk([&](NodeId id) {
      const Node& node = graph.node(id);
      for (uint32_t i = 0; i < node.operands.size(); ++i)
        uses_[node.operands[i].index].push_back({id, i});
    });
    for (NodeId id : todo) {
      if (is_constraint(graph_.node(id))) {
        follow_chain(id);
        apply_constraint(id);
      } else {
        apply_manual_computation(id);
      }
    }
  }

 private:
  // Inner ops before the op around them.
  void collect(RegionId region, std::vector<NodeId>& todo) {
    for (NodeId id : graph_.region(region).nodes) {
      for (RegionId inner : graph_.node(id).regions) collect(inner, todo);
      if (is_constraint(graph_.node(id)) || is_manual(graph_.node(id))) todo.push_back(id);
    }
  }

  NodeId edge_on(ValueId owner) const {
    if (!owner.valid() || uses_[owner.index].size() != 1) return {};
    const NodeId user = uses_[owner.index][0].node;
    return is<op::DataFlowEdge>(graph_.node(user)) ? user : NodeId{};
  }
  // The value that holds the sharding of `value`: an edge's for its targets; invalid where none
  // can.
  ValueId holder(ValueId value) const {
    const NodeId edge = edge_on(edge_owner(graph_, value));
    if (edge.valid()) return graph_.node(edge).results[0];
    const Value& v = graph_.value(value);
    if (v.producer.valid() || !graph_.region(v.region).owner.valid()) return value;
    return edge_owner(graph_, value);
  }
  std::optional<ShardingSpec> sharding_of(ValueId value) const {
    const ValueId at = holder(value);
    return at.valid() ? get_sharding(graph_, at) : std::nullopt;
  }

  std::optional<ShardingSpec> constraint_by(const Use& use) const {
    const Node& node = graph_.node(use.node);
    if (is_constraint(node)) return get_sharding(graph_, node.results[0]);
    if (is_manual(node)) return get_shardings(node, "in_shardings")[use.operand];
    return std::nullopt;
  }
  bool is_constrained(ValueId value, NodeId except = {}) const {
    for (const Use& use : uses_[value.index])
      if (use.node != except &&
          (is_constraint(graph_.node(use.node)) || is_manual(graph_.node(use.node))))
        return true;
    return false;
  }

  bool should_apply(ValueId input, const ShardingSpec& spec) const {
    if (!holder(input).valid() || sharding_of(input) || !is_closed(spec)) return false;
    return std::none_of(uses_[input.index].begin(), uses_[input.index].end(), [&](const Use& use) {
      const auto other = constraint_by(use);
      return other && *other != spec;
    });
  }
  bool belongs_to_edge(ValueId input) const {
    const NodeId producer = graph_.value(input).producer;
    if (producer.valid() && is<op::DataFlowEdge>(graph_.node(producer))) return true;
    return edge_on(edge_owner(graph_, input)).valid();
  }

  void move_uses(ValueId from, ValueId to, const std::vector<Use>& moved) {
    for (const Use& use : moved) {
      graph_.node(use.node).operands[use.operand] = to;
      std::erase_if(uses_[from.index],
                    [&](const Use& u) { return u.node == use.node && u.operand == use.operand; });
      uses_[to.index].push_back(use);
    }
  }

  void insert_after_value(ValueId value, NodeId node) {
    const NodeId producer = graph_.value(value).producer;
    if (producer.valid()) {
      graph_.insert_after(producer, node);
    } else {
      const RegionId region = graph_.value(value).region;
      graph_.insert_before(graph_.region(region).nodes.front(), node);
    }
  }

  // All other uses of `input` become uses of the constraint; pending reductions, which do not
  // propagate, are set on `input` itself.
  void put_constraint_before_uses(ValueId input, NodeId constraint, const ShardingSpec& spec) {
    std::vector<Use> others;
    for (const Use& use : uses_[input.index])
      if (use.node != constraint) others.push_back(use);
    move_uses(input, graph_.node(constraint).results[0], others);
    if (spec.partial.empty()) return;
    ShardingSpec open = ShardingSpec::fully_open(spec.mesh, spec.rank());
    open.partial = spec.partial;
    open.partial_op = spec.partial_op;
    set_sharding(graph_, holder(input), open);
  }

  void apply_constraint(NodeId id) {
    const ValueId input = graph_.node(id).operands[0];
    const ShardingSpec spec = *get_sharding(graph_, graph_.node(id).results[0]);
    if (!should_apply(input, spec)) return;
    if (!belongs_to_edge(input)) {
      set_sharding(graph_, input, spec);
      return;
    }
    graph_.remove(id);
    insert_after_value(input, id);
    put_constraint_before_uses(input, id, spec);
  }

  void apply_manual_computation(NodeId id) {
    const std::vector<ShardingSpec> specs = get_shardings(graph_.node(id), "in_shardings");
    for (size_t i = 0; i < specs.size(); ++i) {
      const ValueId input = graph_.node(id).operands[i];
      if (!should_apply(input, specs[i])) continue;
      if (!belongs_to_edge(input)) {
        set_sharding(graph_, input, specs[i]);
        continue;
      }
      AttrDict attrs;
      attrs.set("sharding", ShardingAttr{specs[i]});
      const Type type = graph_.type(input);
      const NodeId constraint =
          graph_.add_node("sdy.sharding_constraint", {input}, {type}, std::move(attrs));
      uses_.resize(graph_.num_values());
      uses_[input.index].push_back({constraint, 0});
      insert_after_value(input, constraint);
      put_constraint_before_uses(input, constraint, specs[i]);
    }
  }

  // x -> constraint -> ... -> tail: uses of x after the tail, in the same region, see the tail.
  void follow_chain(NodeId head) {
    const ValueId input = graph_.node(head).operands[0];
    const NodeId producer = graph_.value(input).producer;
    if (producer.valid() && is_constraint(graph_.node(producer))) return;
    if (sharding_of(input) || is_constrained(input, head)) return;
    NodeId tail = head;
    while (true) {
      const std::vector<Use>& uses = uses_[graph_.node(tail).results[0].index];
      if (uses.size() != 1 || !is_constraint(graph_.node(uses[0].node))) break;
      tail = uses[0].node;
    }
    if (tail == head || is_constrained(graph_.node(tail).results[0])) return;
    const RegionId region = graph_.node(tail).parent;
    const std::vector<NodeId>& nodes = graph_.region(region).nodes;
    const auto at = std::find(nodes.begin(), nodes.end(), tail);
    std::vector<Use> later;
    for (const Use& use : uses_[input.index]) {
      const Node& user = graph_.node(use.node);
      if (use.node == head || is<op::FuncReturn>(user) || user.parent != region) continue;
      if (std::find(at, nodes.end(), use.node) != nodes.end()) later.push_back(use);
    }
    move_uses(input, graph_.node(tail).results[0], later);
  }

  Graph& graph_;
  std::vector<std::vector<Use>> uses_;
};

}  // namespace

void apply_sharding_constraints(Graph& graph) { Applier{graph}; }

}  // namespace cleave
