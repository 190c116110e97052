#include <functional>
#include <unordered_map>

#include "cleave/graph/op_def.h"
#include "cleave/rewrite/rewriter.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

void mix(size_t& seed, size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15 + (seed << 6) + (seed >> 2);
}

// Two regions with the same nodes in the same order, up to the names of their own values.
class RegionComparison {
 public:
  explicit RegionComparison(const Graph& graph) : graph_(graph) {}

  bool equal(RegionId a, RegionId b) {
    const Region& x = graph_.region(a);
    const Region& y = graph_.region(b);
    if (x.args.size() != y.args.size() || x.nodes.size() != y.nodes.size()) return false;
    for (size_t i = 0; i < x.args.size(); ++i) {
      if (graph_.type(x.args[i]) != graph_.type(y.args[i])) return false;
      same_[x.args[i].index] = y.args[i];
    }
    for (size_t i = 0; i < x.nodes.size(); ++i)
      if (!equal_nodes(graph_.node(x.nodes[i]), graph_.node(y.nodes[i]))) return false;
    return true;
  }

  bool equal_nodes(const Node& x, const Node& y) {
    if (x.def != y.def || x.operands.size() != y.operands.size() ||
        x.results.size() != y.results.size() || x.regions.size() != y.regions.size() ||
        !(x.attrs == y.attrs))
      return false;
    for (size_t i = 0; i < x.operands.size(); ++i) {
      const auto it = same_.find(x.operands[i].index);
      if ((it == same_.end() ? x.operands[i] : it->second) != y.operands[i]) return false;
    }
    for (size_t i = 0; i < x.results.size(); ++i)
      if (graph_.type(x.results[i]) != graph_.type(y.results[i])) return false;
    for (size_t i = 0; i < x.regions.size(); ++i)
      if (!equal(x.regions[i], y.regions[i])) return false;
    for (size_t i = 0; i < x.results.size(); ++i) same_[x.results[i].index] = y.results[i];
    return true;
  }

 private:
  const Graph& graph_;
  std::unordered_map<uint32_t, ValueId> same_;
};

class Merging {
 public:
  explicit Merging(Graph& graph) : graph_(graph), replaced_(graph.num_values()) {}

  bool run() {
    for (const Function& function : graph_.functions)
      if (function.body.valid()) walk(function.body, {});
    return changed_;
  }

 private:
  using Table = std::unordered_multimap<size_t, NodeId>;

  // `seen` is a copy: what a region adds is not there after it.
  void walk(RegionId region, Table seen) {
    std::vector<NodeId> kept;
    const std::vector<NodeId> nodes = graph_.region(region).nodes;
    for (NodeId id : nodes) {
      Node& node = graph_.node(id);
      for (ValueId& operand : node.operands)
        if (replaced_[operand.index].valid()) operand = replaced_[operand.index];
      const bool sees = node.def->has(kDataFlow) && !node.def->has(kIsolated);
      for (RegionId inner : node.regions) walk(inner, sees ? seen : Table());
      if (!merge(id, seen)) kept.push_back(id);
    }
    graph_.region(region).nodes = std::move(kept);
  }

  bool merge(NodeId id, Table& seen) {
    const Node& node = graph_.node(id);
    if (!node.def->has(kPure) || node.def->has(kCollective) || node.results.empty()) return false;
    const size_t key = hash(node);
    const auto [begin, end] = seen.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      const Node& other = graph_.node(it->second);
      if (!RegionComparison(graph_).equal_nodes(other, node)) continue;
      for (size_t i = 0; i < node.results.size(); ++i)
        replaced_[node.results[i].index] = other.results[i];
      changed_ = true;
      return true;
    }
    seen.emplace(key, id);
    return false;
  }

  size_t hash(const Node& node) const {
    size_t seed = std::hash<const OpDef*>()(node.def);
    for (ValueId operand : node.operands) mix(seed, operand.index);
    for (ValueId result : node.results) {
      const Type& type = graph_.type(result);
      mix(seed, static_cast<size_t>(type.dtype));
      for (int64_t size : type.shape) mix(seed, static_cast<size_t>(size));
    }
    const Attribute* value = node.attrs.find("value");
    const ElementsAttr* elements = value ? value->as<ElementsAttr>() : nullptr;
    if (elements && elements->literal.bytes)
      mix(seed,
          std::hash<std::string_view>()({reinterpret_cast<const char*>(elements->literal.data()),
                                         std::min<size_t>(elements->literal.bytes->size(), 256)}));
    return seed;
  }

  Graph& graph_;
  std::vector<ValueId> replaced_;
  bool changed_ = false;
};

class Removal {
 public:
  explicit Removal(Graph& graph) : graph_(graph), used_(graph.num_values()) {}

  bool run() {
    for (const Function& function : graph_.functions)
      if (function.body.valid()) walk(function.body);
    return changed_;
  }

 private:
  void walk(RegionId region) {
    const std::vector<NodeId> nodes = graph_.region(region).nodes;
    std::vector<NodeId> kept;
    for (size_t i = nodes.size(); i-- > 0;) {
      const Node& node = graph_.node(nodes[i]);
      if (is_unused(node) && has_no_effect(node)) {
        changed_ = true;
        continue;
      }
      for (ValueId operand : node.operands) used_[operand.index] = true;
      for (RegionId inner : node.regions) walk(inner);
      kept.push_back(nodes[i]);
    }
    graph_.region(region).nodes.assign(kept.rbegin(), kept.rend());
  }

  bool is_unused(const Node& node) const {
    for (ValueId result : node.results)
      if (used_[result.index]) return false;
    return true;
  }

  bool has_no_effect(const Node& node) const {
    if (node.def->has(kTerminator) || node.def->has(kCollective)) return false;
    if (!node.def->has(kPure) && !(node.def->has(kDataFlow) && !node.regions.empty())) return false;
    for (RegionId region : node.regions)
      for (NodeId inner : graph_.region(region).nodes) {
        const Node& end = graph_.node(inner);
        if (!end.def->has(kTerminator) && !has_no_effect(end)) return false;
      }
    return true;
  }

  Graph& graph_;
  std::vector<bool> used_;
  bool changed_ = false;
};

}  // namespace

bool merge_common(Graph& graph) { return Merging(graph).run(); }

bool remove_dead(Graph& graph) { return Removal(graph).run(); }

}  // namespace cleave
