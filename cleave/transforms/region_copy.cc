#include "cleave/transforms/region_copy.h"

namespace cleave {

NodeId copy_within(Graph& graph, NodeId source, RegionId target, ValueTable& table) {
  return Cloner(graph, &table).copy(source, target);
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

void end_region(Graph& graph, RegionId region, std::string_view name,
                std::vector<ValueId> results) {
  graph.append(region, graph.add_node(name, std::move(results), {}));
}

bool is_differentiable(const Type& type) {
  return type.is_tensor() && (is_float(type.dtype) || is_complex(type.dtype));
}

}  // namespace cleave
