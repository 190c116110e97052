#include "cleave/rules/sharding_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

bool is_group(const Node& node) { return is<op::ShardingGroup>(node); }

std::vector<NodeId> group_nodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  graph.walk([&](NodeId id) {
    if (is_group(graph.node(id))) nodes.push_back(id);
  });
  return nodes;
}

bool is_replicated_and_open(const ShardingSpec& spec) {
  return spec.partial.empty() &&
         std::all_of(spec.dims.begin(), spec.dims.end(),
                     [](const DimSpec& dim) { return dim.axes.empty() && dim.open; });
}

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

ShardingGroups find_sharding_groups(const Graph& graph) {
  ShardingGroups groups;
  for (NodeId id : group_nodes(graph)) {
    const Node& node = graph.node(id);
    const auto group = static_cast<size_t>(node.attrs.get_int("group_id"));
    if (groups.members.size() <= group) groups.members.resize(group + 1);
    groups.members[group].push_back(node.operands[0]);
  }
  return groups;
}

std::vector<std::string> synchronize_sharding_groups(Graph& graph) {
  std::vector<std::string> warnings;
  const ShardingGroups groups = find_sharding_groups(graph);
  GraphRewrite rewrite(graph);
  for (size_t group = 0; group < groups.members.size(); ++group) {
    const std::vector<ValueId>& members = groups.members[group];
    if (members.size() < 2) continue;
    std::optional<ShardingSpec> common;
    bool conflict = false;
    for (ValueId member : members) {
      const auto spec = get_sharding(graph, member);
      if (!spec || is_replicated_and_open(*spec)) continue;
      if (!common) {
        common = spec;
      } else if (*spec != *common) {
        warnings.push_back(fmt::format(
            "The initial operand shardings on the sharding groups of groupID: {} do not match "
            "({} and {}). Inserting an open sharding constraint to all constrained values. This "
            "can "
            "be caused when shardings from different values are grouped (e.g. from "
            "jax.shard_alike) "
            "but have separate inconsistent sharding constraints on them.",
            group, to_string(*common), to_string(*spec)));
        conflict = true;
        break;
      }
    }
    if (!common) continue;
    if (!conflict) {
      for (ValueId member : members) set_sharding(graph, member, *common);
      continue;
    }
    // Those of later members stand first where several are inserted at one place.
    for (auto it = members.rbegin(); it != members.rend(); ++it) {
      const ValueId member = *it;
      AttrDict attrs;
      attrs.set("sharding",
                ShardingAttr{ShardingSpec::fully_open(common->mesh, graph.type(member).rank())});
      const Type type = graph.type(member);
      const NodeId constraint =
          graph.add_node("sdy.sharding_constraint", {member}, {type}, std::move(attrs));
      const Value& value = graph.value(member);
      if (value.producer.valid()) {
        rewrite.insert_after(value.producer, constraint);
      } else {
        rewrite.insert_at_start(value.region, constraint);
      }
      rewrite.replace_uses(member, graph.node(constraint).results[0], constraint);
    }
  }
  rewrite.apply();
  return warnings;
}

void unify_sharding_groups(Graph& graph) {
  const std::vector<NodeId> nodes = group_nodes(graph);
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

void remove_sharding_groups(Graph& graph) {
  GraphRewrite rewrite(graph);
  const std::vector<NodeId> nodes = group_nodes(graph);
  if (nodes.empty()) return;
  for (NodeId id : nodes) rewrite.erase(id);
  rewrite.apply();
}

}  // namespace cleave
