#include "cleave/rules/data_flow.h"

#include "cleave/graph/flow.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

// Whether operand i flows straight to result i.
bool passes_operands(Flow flow) { return flow == Flow::Loop || flow == Flow::Barrier; }

// The regions that return the results.
std::vector<RegionId> returning_regions(const Node& node) {
  if (const auto loop = loop_of(node)) return {loop->body};
  return node.regions;
}

ValueId terminator_operand(const Graph& graph, RegionId region, uint32_t index) {
  const std::vector<NodeId>& nodes = graph.region(region).nodes;
  if (nodes.empty()) return {};
  const Node& terminator = graph.node(nodes.back());
  return index < terminator.operands.size() ? terminator.operands[index] : ValueId{};
}

}  // namespace

bool is_data_flow_op(const Node& node) {
  switch (flow_of(node)) {
    case Flow::Loop:
    case Flow::Branches:
    case Flow::Barrier:
    case Flow::Manual:
    case Flow::Named:
      return true;
    case Flow::None:
    case Flow::Scan:
    case Flow::Call:
      return false;
  }
  return false;
}

bool has_region_arguments_as_owners(const Node& node) {
  const Flow flow = flow_of(node);
  return flow == Flow::Manual || flow == Flow::Named;
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
  return flow_of(node) == Flow::Loop ? node.results[value.index] : ValueId{};
}

std::vector<ValueId> edge_sources(const Graph& graph, ValueId owner) {
  const Value& value = graph.value(owner);
  const NodeId op = data_flow_op_of(graph, owner);
  if (!op.valid()) return {};
  const Node& node = graph.node(op);
  if (!value.producer.valid()) return {node.operands[value.index]};
  std::vector<ValueId> sources;
  if (passes_operands(flow_of(node))) sources.push_back(node.operands[value.index]);
  for (RegionId region : returning_regions(node)) {
    const ValueId source = terminator_operand(graph, region, value.index);
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
  if (flow_of(node) == Flow::Loop && value.producer.valid())
    for (RegionId region : node.regions) targets.push_back(graph.region(region).args[value.index]);
  return targets;
}

ValueId edge_owner_of_source(const Graph& graph, NodeId user, uint32_t operand) {
  const Node& node = graph.node(user);
  if (is_data_flow_op(node)) {
    if (has_region_arguments_as_owners(node)) return graph.region(node.regions[0]).args[operand];
    return passes_operands(flow_of(node)) ? node.results[operand] : ValueId{};
  }
  if (!node.parent.valid()) return {};
  const Region& region = graph.region(node.parent);
  if (!region.owner.valid() || region.nodes.back() != user) return {};
  const Node& parent = graph.node(region.owner);
  if (!is_data_flow_op(parent)) return {};
  const auto loop = loop_of(parent);
  if (loop && node.parent == loop->condition) return {};
  return operand < parent.results.size() ? parent.results[operand] : ValueId{};
}

std::vector<NodeId> find_data_flow_edges(const Graph& graph) {
  std::vector<NodeId> edge_of(graph.num_values());
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (is<op::DataFlowEdge>(node)) edge_of[node.operands[0].index] = id;
  });
  return edge_of;
}

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

}  // namespace cleave
