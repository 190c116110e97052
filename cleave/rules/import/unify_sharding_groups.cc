#include <map>
#include <set>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/rewrite.h"
#include "cleave/ops/op.h"
#include "cleave/rules/import/import_passes.h"
#include "cleave/rules/sharding_groups.h"

namespace cleave {
namespace {

NodeId enclosing_manual_computation(const Graph& graph, NodeId id) {
  for (RegionId region = graph.node(id).parent; region.valid();) {
    const NodeId owner = graph.region(region).owner;
    if (!owner.valid()) return {};
    if (is<op::ManualComputation>(graph.node(owner))) return owner;
    region = graph.node(owner).parent;
  }
  return {};
}

}  // namespace

void unify_sharding_groups(Graph& graph) {
  const std::vector<NodeId> nodes = sharding_group_nodes(graph);
  if (nodes.empty()) return;
  std::map<int64_t, int64_t> leader;
  auto find = [&](int64_t id) {
    leader.try_emplace(id, id);
    while (leader[id] != id) id = leader[id];
    return id;
  };
  std::map<int64_t, NodeId> manual_of;
  std::map<int64_t, Shape> shape_of;
  std::map<ValueId, size_t> position;
  std::vector<std::vector<int64_t>> groups_of;  // by value, in the order of the text
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    const int64_t group = node.attrs.get_int("group_id");
    const NodeId manual = enclosing_manual_computation(graph, id);
    const Shape& shape = graph.type(node.operands[0]).shape;
    if (auto [it, inserted] = manual_of.try_emplace(group, manual);
        !inserted && it->second != manual)
      throw_user(
          "ShardingGroupOps values cannot cross ManualComputationOp boundaries for groupId: {}",
          group);
    if (auto [it, inserted] = shape_of.try_emplace(group, shape); !inserted && it->second != shape)
      throw_user("ShardingGroupOps values must have the same shape for groupId: {}", group);
    auto [it, inserted] = position.try_emplace(node.operands[0], groups_of.size());
    if (inserted) groups_of.emplace_back();
    groups_of[it->second].push_back(group);
  }
  std::vector<int64_t> order;  // of ids, as they come up
  for (const std::vector<int64_t>& groups : groups_of)
    for (int64_t group : groups) {
      if (!leader.contains(group)) order.push_back(group);
      leader[find(group)] = find(groups.front());
    }
  std::map<int64_t, int64_t> number;
  for (int64_t id : order)
    if (find(id) == id) number.emplace(id, static_cast<int64_t>(number.size()));
  GraphRewrite rewrite(graph);
  std::set<std::pair<int64_t, ValueId>> seen;
  for (NodeId id : nodes) {
    Node& node = graph.node(id);
    const int64_t group = number.at(find(node.attrs.get_int("group_id")));
    node.attrs.set("group_id", int_attr(group));
    if (!seen.emplace(group, node.operands[0]).second) rewrite.erase(id);
  }
  rewrite.apply();
}

}  // namespace cleave
