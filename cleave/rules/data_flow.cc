#include "cleave/rules/data_flow.h"

#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

bool is_static_tensor(const Type& type) { return type.is_tensor() && type.has_static_shape(); }

ValueId terminator_operand(const Graph& graph, RegionId region, uint32_t index) {
  const std::vector<NodeId>& nodes = graph.region(region).nodes;
  if (nodes.empty()) return {};
  const Node& terminator = graph.node(nodes.back());
  return index < terminator.operands.size() ? terminator.operands[index] : ValueId{};
}

// The shardings that the edges on `owners` hold, open where one has none; empty where no edge has
// any.
std::vector<ShardingSpec> edge_shardings(const Graph& graph, const std::vector<ValueId>& owners,
                                         const std::vector<NodeId>& edge_of) {
  std::vector<std::optional<ShardingSpec>> found;
  MeshPtr mesh;
  for (ValueId owner : owners) {
    const NodeId edge = edge_of[owner.index];
    found.push_back(edge.valid() ? get_sharding(graph, graph.node(edge).results[0]) : std::nullopt);
    if (found.back() && !mesh) mesh = found.back()->mesh;
  }
  std::vector<ShardingSpec> specs;
  if (!mesh) return specs;
  for (size_t i = 0; i < owners.size(); ++i)
    specs.push_back(found[i] ? *found[i]
                             : ShardingSpec::fully_open(mesh, graph.type(owners[i]).rank()));
  return specs;
}

}  // namespace

bool is_data_flow_op(const Node& node) {
  return is<op::While, op::Case, op::If, op::OptimizationBarrier>(node) ||
         has_region_arguments_as_owners(node);
}

bool has_region_arguments_as_owners(const Node& node) {
  return is<op::ManualComputation, op::NamedComputation>(node);
}

std::vector<ValueId> argument_owners(const Graph& graph, const Node& node) {
  if (!has_region_arguments_as_owners(node)) return {};
  return graph.region(node.regions[0]).args;
}

std::vector<ValueId> result_owners(const Graph&, const Node& node) { return node.results; }

NodeId data_flow_op_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  const NodeId op = value.producer.valid() ? value.producer : graph.region(value.region).owner;
  return op.valid() && is_data_flow_op(graph.node(op)) ? op : NodeId{};
}

ValueId edge_owner(const Graph& graph, ValueId target) {
  const NodeId op = data_flow_op_of(graph, target);
  if (!op.valid()) return {};
  const Value& value = graph.value(target);
  if (value.producer.valid()) return target;
  const Node& node = graph.node(op);
  if (has_region_arguments_as_owners(node)) return target;
  return is<op::While>(node) ? node.results[value.index] : ValueId{};
}

std::vector<ValueId> edge_sources(const Graph& graph, ValueId owner) {
  const Value& value = graph.value(owner);
  const NodeId op = data_flow_op_of(graph, owner);
  if (!op.valid()) return {};
  const Node& node = graph.node(op);
  if (!value.producer.valid()) return {node.operands[value.index]};
  std::vector<ValueId> sources;
  if (is<op::While, op::OptimizationBarrier>(node)) sources.push_back(node.operands[value.index]);
  const size_t first = is<op::While>(node) ? 1 : 0;
  for (size_t r = first; r < node.regions.size(); ++r) {
    const ValueId source = terminator_operand(graph, node.regions[r], value.index);
    if (source.valid()) sources.push_back(source);
  }
  return sources;
}

std::vector<ValueId> edge_targets_beside_owner(const Graph& graph, ValueId owner) {
  const Value& value = graph.value(owner);
  std::vector<ValueId> targets;
  const NodeId op = data_flow_op_of(graph, owner);
  if (!op.valid()) return targets;
  const Node& node = graph.node(op);
  if (is<op::While>(node) && value.producer.valid())
    for (RegionId region : node.regions) targets.push_back(graph.region(region).args[value.index]);
  return targets;
}

ValueId edge_owner_of_source(const Graph& graph, NodeId user, uint32_t operand) {
  const Node& node = graph.node(user);
  if (is_data_flow_op(node)) {
    if (has_region_arguments_as_owners(node)) return graph.region(node.regions[0]).args[operand];
    if (is<op::While, op::OptimizationBarrier>(node)) return node.results[operand];
    return {};
  }
  if (!node.parent.valid()) return {};
  const Region& region = graph.region(node.parent);
  if (!region.owner.valid() || region.nodes.back() != user) return {};
  const Node& parent = graph.node(region.owner);
  if (!is_data_flow_op(parent)) return {};
  if (is<op::While>(parent) && node.parent == parent.regions[0]) return {};
  return operand < parent.results.size() ? parent.results[operand] : ValueId{};
}

void add_data_flow_edges(Graph& graph, bool (*wanted)(const Node&)) {
  GraphRewrite rewrite(graph);
  auto add = [&](ValueId owner, NodeId op, bool at_start) {
    if (!is_static_tensor(graph.type(owner))) return;
    AttrDict attrs;
    if (auto spec = get_sharding(graph, owner)) attrs.set("sharding", ShardingAttr{*spec});
    const NodeId edge =
        graph.add_node("sdy.data_flow_edge", {owner}, {graph.type(owner)}, std::move(attrs));
    if (at_start) {
      rewrite.insert_at_start(graph.node(op).regions[0], edge);
    } else {
      rewrite.insert_after(op, edge);
    }
    rewrite.replace_uses(owner, graph.node(edge).results[0], edge);
  };
  graph.walk([&](NodeId id) {
    if (!wanted(graph.node(id))) return;
    for (ValueId owner : argument_owners(graph, graph.node(id))) add(owner, id, true);
    for (ValueId owner : result_owners(graph, graph.node(id))) add(owner, id, false);
  });
  rewrite.apply();
}

void sink_data_flow_edges(Graph& graph) {
  std::vector<NodeId> edge_of(graph.num_values());
  std::vector<NodeId> edges;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (!is<op::DataFlowEdge>(node)) return;
    edges.push_back(id);
    edge_of[node.operands[0].index] = id;
  });
  if (edges.empty()) return;
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is_data_flow_op(node)) return;
    std::vector<ShardingSpec> specs = edge_shardings(graph, argument_owners(graph, node), edge_of);
    if (!specs.empty()) {
      if (is<op::ManualComputation>(node)) {
        std::vector<ShardingSpec> outer = get_shardings(node, "in_shardings");
        for (size_t i = 0; i < specs.size(); ++i)
          specs[i] = with_manual_axes(outer[i], specs[i], node);
      }
      set_shardings(node, "in_shardings", std::move(specs));
    }
    specs = edge_shardings(graph, result_owners(graph, node), edge_of);
    if (!specs.empty())
      set_shardings(
          node,
          has_region_arguments_as_owners(node) ? std::string_view("out_shardings") : kShardingAttr,
          std::move(specs));
  });
  GraphRewrite rewrite(graph);
  for (NodeId edge : edges) {
    rewrite.replace_uses(graph.node(edge).results[0], graph.node(edge).operands[0]);
    rewrite.erase(edge);
  }
  rewrite.apply();
}

}  // namespace cleave
