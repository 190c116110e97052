#include "cleave/ops/identity.h"

namespace cleave {

ValueId behind_identities(const Graph& graph, ValueId value) {
  while (true) {
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid() || !is_identity_op(graph.node(producer))) return value;
    value = graph.node(producer).operands[0];
  }
}

void remove_identities(Graph& graph, RegionId region) {
  std::vector<NodeId> found;
  graph.walk(region, [&](NodeId id) {
    if (is_identity_op(graph.node(id))) found.push_back(id);
    for (ValueId& operand : graph.node(id).operands) operand = behind_identities(graph, operand);
  });
  for (NodeId id : found) std::erase(graph.region(graph.node(id).parent).nodes, id);
}

}  // namespace cleave
