#include "cleave/rules/sharding_groups.h"

#include "cleave/ops/op.h"

namespace cleave {

std::vector<NodeId> sharding_group_nodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  graph.walk([&](NodeId id) {
    if (is<op::ShardingGroup>(graph.node(id))) nodes.push_back(id);
  });
  return nodes;
}

ShardingGroups find_sharding_groups(const Graph& graph) {
  ShardingGroups groups;
  for (NodeId id : sharding_group_nodes(graph)) {
    const Node& node = graph.node(id);
    const auto group = static_cast<size_t>(node.attrs.get_int("group_id"));
    if (groups.members.size() <= group) groups.members.resize(group + 1);
    groups.members[group].push_back(node.operands[0]);
  }
  return groups;
}

}  // namespace cleave
