#include "cleave/graph/value_map.h"

#include "cleave/core/error.h"

namespace cleave {

ValueId ValueMap::at(ValueId from) const {
  const ValueId found = (*this)[from];
  internal_check(found.valid(), "a copied node uses a value that was not copied");
  return found;
}

std::vector<ValueId> ValueMap::at(const std::vector<ValueId>& from) const {
  std::vector<ValueId> to;
  to.reserve(from.size());
  for (ValueId value : from) to.push_back(at(value));
  return to;
}

std::vector<ValueId> ValueMap::map(const std::vector<ValueId>& from) const {
  std::vector<ValueId> to;
  to.reserve(from.size());
  for (ValueId value : from) to.push_back(map(value));
  return to;
}

void ValueMap::set(std::span<const ValueId> from, std::span<const ValueId> to) {
  internal_check(from.size() <= to.size(), "a copy has fewer values than what it stands for");
  for (size_t i = 0; i < from.size(); ++i) set(from[i], to[i]);
}

void replace_operands(Graph& graph, NodeId node, const ValueMap& map) {
  Node& n = graph.node(node);
  for (ValueId& operand : n.operands) operand = map.map(operand);
  for (RegionId region : n.regions)
    for (NodeId inner : graph.region(region).nodes) replace_operands(graph, inner, map);
}

}  // namespace cleave
