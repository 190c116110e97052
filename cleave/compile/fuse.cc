#include "cleave/compile/fuse.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "cleave/compile/fusion_groups.h"
#include "cleave/compile/fusion_writer.h"
#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/scalar_code.h"
#include "cleave/kernels/loop.h"
#include "cleave/ops/op.h"
#include "cleave/ops/reduce/reduction_body.h"

namespace cleave {
namespace {

constexpr uint32_t kNoGroup = kNoFusionGroup;
using Group = FusionGroup;

class RegionFusion {
 public:
  RegionFusion(Graph& graph, RegionId region, const FuseOptions& options,
               std::vector<uint32_t>& group_of, std::vector<uint32_t>& position)
      : graph_(graph),
        region_(region),
        options_(options),
        group_of_(group_of),
        position_(position),
        level_(graph.num_nodes(), FusionLevel::Elements) {}

  bool run() {
    const std::vector<NodeId> nodes = graph_.region(region_).nodes;
    NodeId last;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      position_[nodes[i].index] = i;
      if (has_free_order(node(nodes[i]))) continue;
      before_[nodes[i].index] = last;
      last = nodes[i];
    }
    for (NodeId id : nodes) offer(id);
    while (const auto group = tangled_group(nodes)) give_up(*group);
    bool any = false;
    for (Group& group : groups_) any |= !group.nodes.empty();
    if (any) write_fusion_groups(graph_, region_, groups_, group_of_);
    return any;
  }

 private:
  const Node& node(NodeId id) const { return graph_.node(id); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  int64_t count(ValueId value) const { return num_elements(shape(value)); }
  // The producer in this region, or an invalid id.
  NodeId producer(ValueId value) const {
    const NodeId id = graph_.value(value).producer;
    return id.valid() && node(id).parent == region_ ? id : NodeId();
  }
  uint32_t group_of(ValueId value) const {
    const NodeId id = producer(value);
    return id.valid() ? group_of_[id.index] : kNoGroup;
  }

  bool is_candidate(const Node& n) const {
    if (n.results.size() != 1 || n.operands.empty() || is_cheap_leaf(graph_, n)) return false;
    for (ValueId value : n.operands)
      if (!has_static_tensor(graph_, value)) return false;
    if (!has_static_tensor(graph_, n.results[0]) || count(n.results[0]) == 0) return false;
    if (is<op::Reshape>(n)) return true;
    if (is<op::Reduce>(n)) return is_simple_reduction(n);
    if (!n.def->has(kElementwise) || !n.def->loop || n.operands.size() > kMaxLoopOperands)
      return false;
    for (ValueId value : n.operands)
      if (shape(value) != shape(n.results[0])) return false;
    return n.def->loop(graph_, n).loop != nullptr;
  }

  bool is_simple_reduction(const Node& n) const {
    FusionLevel level;
    int64_t columns = 0;
    if (n.operands.size() != 2 || is_complex(graph_.operand_type(n, 0).dtype) ||
        graph_.operand_type(n, 0).dtype != graph_.result_type(n).dtype ||
        body_dtype(graph_, n, 0) != graph_.result_type(n).dtype ||
        !recognise_reducers(graph_, n.regions[0]))
      return false;
    if (!reduction_level(shape(n.operands[0]), n.attrs.get_ints_or_empty("dimensions"), level,
                         columns))
      return false;
    return level == FusionLevel::Total ||
           columns <=
               (level == FusionLevel::Rows ? options_.longest_row : 4 * options_.longest_row);
  }

  // The node joins the groups of its operands where it can, or begins its own.
  void offer(NodeId id) {
    const Node& n = node(id);
    if (!is_candidate(n)) return;
    std::vector<uint32_t> joined;
    for (ValueId operand : n.operands) {
      uint32_t g = group_of(operand);
      const NodeId leaf = producer(operand);
      if (g == kNoGroup && leaf.valid() && is<op::BroadcastInDim>(node(leaf)))
        g = group_of(node(leaf).operands[0]);
      if (g == kNoGroup || std::find(joined.begin(), joined.end(), g) != joined.end()) continue;
      std::vector<uint32_t> trial = joined;
      trial.push_back(g);
      if (fits(id, trial)) joined = std::move(trial);
    }
    if (joined.empty()) {
      if (is<op::Reshape>(n)) return;
      joined = {static_cast<uint32_t>(groups_.size())};
      groups_.emplace_back();
      if (!fits(id, joined)) {
        groups_.pop_back();
        return;
      }
    }
    const Group merged = try_merge(id, joined).value();
    for (uint32_t g : joined) groups_[g].nodes.clear();
    for (NodeId member : merged.nodes) group_of_[member.index] = joined[0];
    groups_[joined[0]] = merged;
    level_[id.index] = level_in(id, joined, merged).value();
  }

  bool fits(NodeId id, const std::vector<uint32_t>& joined) const {
    return try_merge(id, joined).has_value() && !makes_cycle(id, joined);
  }

  // The groups and the node as one, where their spaces agree.
  std::optional<Group> try_merge(NodeId id, const std::vector<uint32_t>& joined) const {
    const Node& n = node(id);
    Group merged;
    for (uint32_t g : joined) {
      const Group& group = groups_[g];
      if (group.nodes.empty()) continue;
      if (merged.size && merged.size != group.size) return std::nullopt;
      merged.size = group.size;
      if (merged.columns && group.columns && merged.columns != group.columns) return std::nullopt;
      merged.columns = std::max(merged.columns, group.columns);
      merged.nodes.insert(merged.nodes.end(), group.nodes.begin(), group.nodes.end());
    }
    if (merged.nodes.size() >= options_.most_nodes) return std::nullopt;
    if (joined.size() > 1 && !can_stand_together(joined)) return std::nullopt;
    if (is<op::Reduce>(n)) {
      FusionLevel level;
      int64_t columns = 0;
      reduction_level(shape(n.operands[0]), n.attrs.get_ints_or_empty("dimensions"), level,
                      columns);
      if (merged.size == 0) merged.size = count(n.operands[0]);
      if (count(n.operands[0]) != merged.size) return std::nullopt;
      if (columns && merged.columns && merged.columns != columns) return std::nullopt;
      merged.columns = std::max(merged.columns, columns);
      if (merged.columns > options_.longest_row && has_rows(merged)) return std::nullopt;
    } else if (merged.size == 0) {
      merged.size = count(n.results[0]);
    }
    if (!level_in(id, joined, merged)) return std::nullopt;
    std::sort(merged.nodes.begin(), merged.nodes.end(),
              [&](NodeId a, NodeId b) { return position_[a.index] < position_[b.index]; });
    merged.nodes.push_back(id);
    return merged;
  }

  // What one group reads of another must be elements, as they are.
  bool can_stand_together(const std::vector<uint32_t>& joined) const {
    for (uint32_t g : joined)
      for (NodeId id : groups_[g].nodes)
        for (size_t i = 0; i < node(id).operands.size(); ++i) {
          const ValueId operand = node(id).operands[i];
          const bool reads_elements =
              level_[id.index] == FusionLevel::Elements || (is<op::Reduce>(node(id)) && i == 0);
          std::vector<ValueId> sources;
          leaf_sources(graph_, operand, sources);
          for (ValueId source : sources) {
            const uint32_t other = group_of(source);
            if (other == g || std::find(joined.begin(), joined.end(), other) == joined.end())
              continue;
            if (source != operand || !reads_elements ||
                level_[producer(source).index] != FusionLevel::Elements)
              return false;
          }
        }
    return true;
  }

  bool has_rows(const Group& group) const {
    return std::any_of(group.nodes.begin(), group.nodes.end(),
                       [&](NodeId id) { return level_[id.index] == FusionLevel::Rows; });
  }

  // The level of the node among the merged groups; nothing where an operand from inside does not
  // fit it.
  std::optional<FusionLevel> level_in(NodeId id, const std::vector<uint32_t>& joined,
                                      const Group& merged) const {
    const Node& n = node(id);
    auto inside = [&](ValueId value) {
      const uint32_t g = group_of(value);
      return g != kNoGroup && std::find(joined.begin(), joined.end(), g) != joined.end();
    };
    std::optional<FusionLevel> level;
    auto agree = [&](FusionLevel other) {
      if (other == FusionLevel::Columns || other == FusionLevel::Total) return false;
      if (level && *level != other) return false;
      level = other;
      return true;
    };
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const ValueId operand = n.operands[i];
      if (inside(operand)) {
        if (!agree(level_[producer(operand).index])) return std::nullopt;
        if (is<op::Reduce>(n) && i == 1) return std::nullopt;
        continue;
      }
      // A broadcast of a member: of rows over the columns.
      std::vector<ValueId> sources;
      leaf_sources(graph_, operand, sources);
      if (std::none_of(sources.begin(), sources.end(), inside)) continue;
      const NodeId leaf = producer(operand);
      const ValueId source = node(leaf).operands[0];
      if (!inside(source)) return std::nullopt;
      int64_t times = 0;
      if (level_[producer(source).index] != FusionLevel::Rows || count(operand) != merged.size ||
          !spreads_rows(shape(source), shape(operand),
                        node(leaf).attrs.get_ints_or_empty("broadcast_dimensions"), times) ||
          times != merged.columns)
        return std::nullopt;
      if (!agree(FusionLevel::Elements)) return std::nullopt;
    }
    if (is<op::Reduce>(n)) {
      if (level && *level != FusionLevel::Elements) return std::nullopt;
      FusionLevel result;
      int64_t columns = 0;
      reduction_level(shape(n.operands[0]), n.attrs.get_ints_or_empty("dimensions"), result,
                      columns);
      return result;
    }
    const int64_t size = count(n.results[0]);
    if (!level) level = size == merged.size ? FusionLevel::Elements : FusionLevel::Rows;
    const int64_t expected = *level == FusionLevel::Elements ? merged.size
                             : merged.columns                ? merged.size / merged.columns
                                                             : -1;
    return size == expected ? level : std::nullopt;
  }

  void give_up(uint32_t group) {
    for (NodeId member : groups_[group].nodes) group_of_[member.index] = kNoGroup;
    groups_[group].nodes.clear();
  }

  // `makes_cycle` looks no further back than where the merged group begins, and another that begins
  // earlier may end later and need it. Gives the smallest group of some that need each other.
  std::optional<uint32_t> tangled_group(const std::vector<NodeId>& nodes) const {
    std::map<uint32_t, uint8_t> state;  // by the first node of a unit: 1 on the way, 2 done
    std::vector<NodeId> way;            // units that need the next one
    std::optional<uint32_t> found;
    auto unit_of = [&](NodeId id) {
      const uint32_t g = group_of_[id.index];
      return g == kNoGroup ? id : groups_[g].nodes.front();
    };
    std::function<void(NodeId)> visit = [&](NodeId id) {
      const NodeId unit = unit_of(id);
      const uint8_t known = state[unit.index];
      if (known == 2 || found) return;
      if (known == 1) {
        for (auto it = std::find(way.begin(), way.end(), unit); it != way.end(); ++it) {
          const uint32_t g = group_of_[it->index];
          if (g == kNoGroup) continue;
          if (!found || groups_[g].nodes.size() < groups_[*found].nodes.size()) found = g;
        }
        return;
      }
      state[unit.index] = 1;
      way.push_back(unit);
      const uint32_t g = group_of_[unit.index];
      std::function<void(const Node&)> visit_needs = [&](const Node& from) {
        for (ValueId operand : from.operands) {
          const NodeId source = producer(operand);
          if (!source.valid() || (g != kNoGroup && group_of_[source.index] == g)) continue;
          std::vector<ValueId> sources{operand};
          if (g != kNoGroup && is_cheap_leaf(graph_, node(source))) {
            sources.clear();
            leaf_sources(graph_, operand, sources);
          }
          for (ValueId inner : sources)
            if (const NodeId needed = producer(inner); needed.valid() && unit_of(needed) != unit)
              visit(needed);
        }
        for (RegionId inner : from.regions)
          for (NodeId n : graph_.region(inner).nodes) visit_needs(node(n));
      };
      if (g == kNoGroup) {
        visit_needs(node(unit));
        const auto ordered = before_.find(unit.index);
        if (ordered != before_.end() && ordered->second.valid()) visit(ordered->second);
      } else {
        for (NodeId member : groups_[g].nodes) visit_needs(node(member));
      }
      way.pop_back();
      state[unit.index] = 2;
    };
    for (NodeId id : nodes) {
      visit(id);
      if (found) return found;
    }
    return std::nullopt;
  }

  // Whether something outside would both need the merged group and be needed by it.
  bool makes_cycle(NodeId id, const std::vector<uint32_t>& joined) const {
    auto is_member = [&](NodeId other) {
      const uint32_t g = group_of_[other.index];
      return g != kNoGroup && std::find(joined.begin(), joined.end(), g) != joined.end();
    };
    uint32_t first = position_[id.index];
    std::vector<NodeId> members = {id};
    for (uint32_t g : joined)
      for (NodeId member : groups_[g].nodes) {
        members.push_back(member);
        first = std::min(first, position_[member.index]);
      }
    std::set<uint32_t> seen_nodes, seen_groups;
    std::vector<NodeId> open;
    // Operands of a node, and what its regions read from around them.
    std::function<void(const Node&, bool)> add_operands = [&](const Node& from, bool of_member) {
      for (ValueId operand : from.operands) {
        const NodeId source = producer(operand);
        if (!source.valid()) continue;
        if (of_member && is_member(source)) continue;
        // A cheap leaf is copied into the fusion: it is no node outside.
        if (of_member && is_cheap_leaf(graph_, node(source))) {
          std::vector<ValueId> sources;
          leaf_sources(graph_, operand, sources);
          for (ValueId inner : sources) {
            const NodeId behind = producer(inner);
            if (behind.valid() && !is_member(behind)) open.push_back(behind);
          }
          continue;
        }
        open.push_back(source);
      }
      for (RegionId inner : from.regions)
        for (NodeId n : graph_.region(inner).nodes) add_operands(node(n), of_member);
    };
    for (NodeId member : members) add_operands(node(member), true);
    while (!open.empty()) {
      const NodeId current = open.back();
      open.pop_back();
      if (!seen_nodes.insert(current.index).second) continue;
      if (is_member(current)) return true;
      const uint32_t g = group_of_[current.index];
      if (g == kNoGroup) {
        if (position_[current.index] <= first) continue;
        add_operands(node(current), false);
        const auto ordered = before_.find(current.index);
        if (ordered != before_.end() && ordered->second.valid()) open.push_back(ordered->second);
      } else if (seen_groups.insert(g).second) {
        if (position_[groups_[g].nodes.back().index] > first)
          for (NodeId member : groups_[g].nodes) add_operands(node(member), false);
      }
    }
    return false;
  }

  Graph& graph_;
  const RegionId region_;
  const FuseOptions& options_;
  std::vector<uint32_t>& group_of_;  // by node
  std::vector<uint32_t>& position_;  // by node, in its region
  std::vector<FusionLevel> level_;   // by node
  std::vector<Group> groups_;
  std::map<uint32_t, NodeId> before_;  // nodes that keep their order, to the one before
};

class Fusion {
 public:
  Fusion(Graph& graph, const FuseOptions& options) : graph_(graph), options_(options) {}

  bool run() {
    bool changed = false;
    const std::set<std::string> scalar = scalar_functions(graph_);
    for (size_t i = 0; i < graph_.functions.size(); ++i)
      if (graph_.functions[i].body.valid() && !scalar.contains(graph_.functions[i].name))
        changed |= fuse_region(graph_.functions[i].body);
    return changed;
  }

 private:
  // Loops and branches inside first. Bodies of reductions and the like are scalar code that stays.
  bool fuse_region(RegionId region) {
    bool changed = false;
    const std::vector<NodeId> nodes = graph_.region(region).nodes;
    for (NodeId id : nodes) {
      if (!graph_.node(id).def->has(kDataFlow)) continue;
      const std::vector<RegionId> regions = graph_.node(id).regions;
      for (RegionId inner : regions) changed |= fuse_region(inner);
    }
    std::vector<uint32_t> group_of(graph_.num_nodes(), kNoGroup);
    std::vector<uint32_t> position(graph_.num_nodes());
    return RegionFusion(graph_, region, options_, group_of, position).run() || changed;
  }

  Graph& graph_;
  const FuseOptions& options_;
};

}  // namespace

bool fuse(Graph& graph, const FuseOptions& options) { return Fusion(graph, options).run(); }

}  // namespace cleave
