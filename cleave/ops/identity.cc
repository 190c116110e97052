#include "cleave/ops/identity.h"

#include <set>

namespace cleave {

ValueId behind_identities(const Graph& graph, ValueId value) {
  while (true) {
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid() || !is_identity_op(graph.node(producer))) return value;
    value = graph.node(producer).operands[0];
  }
}

void remove_identities(Graph& graph, RegionId region) {
  std::set<NodeId> found;
  graph.walk(region, [&](NodeId id) {
    if (is_identity_op(graph.node(id))) found.insert(id);
  });
  if (found.empty()) return;
  // Not beyond the region: what is captured may have been made whole outside.
  auto behind = [&](ValueId value) {
    while (found.contains(graph.value(value).producer))
      value = graph.node(graph.value(value).producer).operands[0];
    return value;
  };
  graph.walk(region, [&](NodeId id) {
    for (ValueId& operand : graph.node(id).operands) operand = behind(operand);
  });
  for (NodeId id : found) std::erase(graph.region(graph.node(id).parent).nodes, id);
}

}  // namespace cleave
