#include "cleave/graph/copy.h"

#include "cleave/core/error.h"

namespace cleave {

std::vector<ValueId> map_values(const std::vector<ValueId>& values, const ValueMap& map) {
  std::vector<ValueId> mapped;
  mapped.reserve(values.size());
  for (ValueId value : values) {
    internal_check(value.index < map.size() && map[value.index].valid(),
                   "a copied node uses a value that was not copied");
    mapped.push_back(map[value.index]);
  }
  return mapped;
}

NodeId copy_node(const Graph& from, NodeId id, Graph& to, RegionId target, ValueMap& map) {
  const Node& node = from.node(id);
  std::vector<Type> types;
  for (ValueId result : node.results) types.push_back(from.type(result));
  const NodeId copy =
      to.add_node(node.name, map_values(node.operands, map), std::move(types), node.attrs);
  to.append(target, copy);
  to.node(copy).location = node.location;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId result = to.node(copy).results[i];
    to.value(result).name = from.value(node.results[i]).name;
    map[node.results[i].index] = result;
  }
  for (RegionId region : node.regions) copy_region(from, region, to, to.add_region(copy), map);
  return copy;
}

void copy_region(const Graph& from, RegionId source, Graph& to, RegionId target, ValueMap& map) {
  for (ValueId arg : from.region(source).args)
    map[arg.index] = to.add_argument(target, from.type(arg), from.value(arg).name);
  for (NodeId node : from.region(source).nodes) copy_node(from, node, to, target, map);
}

}  // namespace cleave
