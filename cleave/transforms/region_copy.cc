#include "cleave/transforms/region_copy.h"

namespace cleave {

std::vector<ValueId> ValueTable::map(const std::vector<ValueId>& ids) const {
  std::vector<ValueId> mapped;
  mapped.reserve(ids.size());
  for (ValueId id : ids) mapped.push_back(map(id));
  return mapped;
}

NodeId copy_within(Graph& graph, NodeId source, RegionId target, ValueTable& table) {
  const Node node = graph.node(source);
  std::vector<Type> types;
  for (ValueId result : node.results) types.push_back(graph.type(result));
  const NodeId copy =
      graph.add_node(node.name, table.map(node.operands), std::move(types), node.attrs);
  graph.append(target, copy);
  graph.node(copy).location = node.location;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId result = graph.node(copy).results[i];
    graph.value(result).name = graph.value(node.results[i]).name;
    table.set(node.results[i], result);
  }
  for (RegionId region : node.regions)
    copy_region_within(graph, region, graph.add_region(copy), table);
  return copy;
}

void copy_region_within(Graph& graph, RegionId source, RegionId target, ValueTable& table) {
  const std::vector<ValueId> args = graph.region(source).args;
  for (ValueId arg : args) {
    const Value value = graph.value(arg);
    table.set(arg, graph.add_argument(target, value.type, value.name));
  }
  const std::vector<NodeId> nodes = graph.region(source).nodes;
  for (NodeId node : nodes) copy_within(graph, node, target, table);
}

void adopt(Graph& graph, RegionId region, std::vector<ValueId> args, std::vector<NodeId> nodes) {
  for (size_t i = 0; i < args.size(); ++i) {
    Value& value = graph.value(args[i]);
    value.region = region;
    value.index = static_cast<uint32_t>(i);
  }
  for (NodeId node : nodes) graph.node(node).parent = region;
  graph.region(region).args = std::move(args);
  graph.region(region).nodes = std::move(nodes);
}

void replace_operands(Graph& graph, NodeId node, const ValueTable& table) {
  Node& n = graph.node(node);
  for (ValueId& operand : n.operands) operand = table.map(operand);
  for (RegionId region : n.regions)
    for (NodeId inner : graph.region(region).nodes) replace_operands(graph, inner, table);
}

void end_region(Graph& graph, RegionId region, std::string_view name,
                std::vector<ValueId> results) {
  graph.append(region, graph.add_node(name, std::move(results), {}));
}

bool is_differentiable(const Type& type) {
  return type.is_tensor() && (is_float(type.dtype) || is_complex(type.dtype));
}

}  // namespace cleave
