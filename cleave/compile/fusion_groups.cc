#include "cleave/compile/fusion_groups.h"

#include <functional>
#include <map>
#include <set>

#include "cleave/compile/fusion_writer.h"
#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

class GroupWriter {
 public:
  GroupWriter(Graph& graph, RegionId region, std::vector<FusionGroup>& groups,
              std::vector<uint32_t>& group_of)
      : graph_(graph), region_(region), groups_(groups), group_of_(group_of) {}

  void run() {
    const std::vector<NodeId> nodes = graph_.region(region_).nodes;
    for (FusionGroup& group : groups_) drop_last_reshapes(group);
    std::set<uint32_t> leaves;
    const std::set<uint32_t> read = values_read_outside(nodes, leaves);
    std::vector<NodeId> units;  // what stands in the region afterwards; a group by its last member
    for (NodeId id : nodes) {
      const uint32_t g = group_of_[id.index];
      if (g != kNoFusionGroup ? groups_[g].nodes.back() == id
                              : !is_cheap_leaf(graph_, node(id)) || leaves.count(id.index))
        units.push_back(id);
    }
    std::vector<NodeId> list;
    for (NodeId id : units) {
      const uint32_t g = group_of_[id.index];
      list.push_back(g == kNoFusionGroup ? id : write(groups_[g], read));
    }
    sort_by_need(list);
    graph_.region(region_).nodes = std::move(list);
  }

 private:
  const Node& node(NodeId id) const { return graph_.node(id); }
  // The producer in this region, or an invalid id.
  NodeId producer(ValueId value) const {
    const NodeId id = graph_.value(value).producer;
    return id.valid() && node(id).parent == region_ ? id : NodeId();
  }
  uint32_t group_of(ValueId value) const {
    const NodeId id = producer(value);
    return id.valid() ? group_of_[id.index] : kNoFusionGroup;
  }

  // Reshapes that no member reads are views of results, and cost nothing outside.
  void drop_last_reshapes(FusionGroup& group) {
    std::set<uint32_t> read;
    std::vector<NodeId> kept;
    for (size_t i = group.nodes.size(); i-- > 0;) {
      const NodeId id = group.nodes[i];
      if (is<op::Reshape>(node(id)) && !read.count(node(id).results[0].index)) {
        group_of_[id.index] = kNoFusionGroup;
        continue;
      }
      kept.push_back(id);
      for (ValueId operand : node(id).operands) {
        read.insert(operand.index);
        std::vector<ValueId> sources;
        leaf_sources(graph_, operand, sources);
        for (ValueId inner : sources) read.insert(inner.index);
      }
    }
    group.nodes.assign(kept.rbegin(), kept.rend());
  }

  // Values that a node outside of their group reads, itself or inside; and the cheap leaves that
  // are read outside of groups.
  std::set<uint32_t> values_read_outside(const std::vector<NodeId>& nodes,
                                         std::set<uint32_t>& needed) const {
    std::set<uint32_t> read;
    std::function<void(NodeId, uint32_t)> visit = [&](NodeId id, uint32_t group) {
      for (ValueId operand : node(id).operands) {
        const uint32_t own = group_of(operand);
        if (own != kNoFusionGroup && own != group) read.insert(operand.index);
        // A broadcast that is copied into the group reads its operand there.
        if (group == kNoFusionGroup) continue;
        std::vector<ValueId> sources;
        leaf_sources(graph_, operand, sources);
        for (ValueId inner : sources) {
          const uint32_t other = group_of(inner);
          if (other != kNoFusionGroup && other != group) read.insert(inner.index);
        }
      }
      for (RegionId region : node(id).regions)
        for (NodeId inner : graph_.region(region).nodes) visit(inner, group);
    };
    // Cheap leaves that only fusions read are dead afterwards, and do not count.
    for (NodeId id : nodes) {
      if (group_of_[id.index] != kNoFusionGroup || is_cheap_leaf(graph_, node(id))) continue;
      note_leaves(id, needed);
    }
    for (NodeId id : nodes)
      if (!is_cheap_leaf(graph_, node(id)) || needed.count(id.index))
        visit(id, group_of_[id.index]);
    return read;
  }

  // Cheap leaves that a node outside of the groups reads, and those that they read.
  void note_leaves(NodeId id, std::set<uint32_t>& needed) const {
    for (ValueId operand : node(id).operands) {
      const NodeId leaf = producer(operand);
      if (leaf.valid() && is_cheap_leaf(graph_, node(leaf)) && needed.insert(leaf.index).second)
        note_leaves(leaf, needed);
    }
    for (RegionId region : node(id).regions)
      for (NodeId inner : graph_.region(region).nodes) note_leaves(inner, needed);
  }

  NodeId write(const FusionGroup& group, const std::set<uint32_t>& read) {
    std::vector<ValueId> outputs;
    for (NodeId id : group.nodes)
      for (ValueId result : node(id).results)
        if (read.count(result.index)) outputs.push_back(result);
    const NodeId fusion = write_fusion(graph_, region_, group.nodes, outputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      moved_[outputs[i].index] = graph_.node(fusion).results[i];
    return fusion;
  }

  // A stable topological order: nodes keep their place but for what must come before them.
  void sort_by_need(std::vector<NodeId>& list) {
    for (NodeId id : list) rename(id);
    std::map<uint32_t, size_t> place;
    for (size_t i = 0; i < list.size(); ++i) place[list[i].index] = i;
    std::vector<uint8_t> state(list.size());
    std::vector<NodeId> sorted;
    std::function<void(size_t)> visit;
    std::function<void(NodeId)> visit_needs = [&](NodeId id) {
      for (ValueId operand : node(id).operands) {
        const NodeId source = graph_.value(operand).producer;
        if (!source.valid()) continue;
        const auto it = place.find(source.index);
        if (it != place.end()) visit(it->second);
      }
      for (RegionId region : node(id).regions)
        for (NodeId inner : graph_.region(region).nodes) visit_needs(inner);
    };
    size_t last_ordered = SIZE_MAX;
    std::vector<size_t> before(list.size(), SIZE_MAX);
    for (size_t i = 0; i < list.size(); ++i) {
      if (has_free_order(node(list[i]))) continue;
      before[i] = last_ordered;
      last_ordered = i;
    }
    visit = [&](size_t i) {
      if (state[i] == 2) return;
      internal_check(state[i] == 0, "fusions need each other");
      state[i] = 1;
      if (before[i] != SIZE_MAX) visit(before[i]);
      visit_needs(list[i]);
      state[i] = 2;
      sorted.push_back(list[i]);
    };
    for (size_t i = 0; i < list.size(); ++i) visit(i);
    list = std::move(sorted);
  }

  // Reads of what has moved into a fusion become reads of the fusion's results.
  void rename(NodeId id) {
    const bool is_fusion = is<op::Fusion>(node(id));
    for (ValueId& operand : graph_.node(id).operands) {
      const auto it = moved_.find(operand.index);
      if (it != moved_.end()) operand = it->second;
    }
    if (is_fusion) return;
    for (RegionId region : node(id).regions)
      for (NodeId inner : graph_.region(region).nodes) rename(inner);
  }

  Graph& graph_;
  const RegionId region_;
  std::vector<FusionGroup>& groups_;
  std::vector<uint32_t>& group_of_;    // by node
  std::map<uint32_t, ValueId> moved_;  // values of members, to results of fusions
};

}  // namespace

bool has_free_order(const Node& node) {
  return node.def->has(kPure) && !node.def->has(kCollective);
}

void write_fusion_groups(Graph& graph, RegionId region, std::vector<FusionGroup>& groups,
                         std::vector<uint32_t>& group_of) {
  GroupWriter(graph, region, groups, group_of).run();
}

}  // namespace cleave
