#include "cleave/compile/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cleave/compile/epilogue.h"
#include "cleave/compile/fusion_writer.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

class Recompute {
 public:
  Recompute(Graph& graph, RegionId region, const RecomputeOptions& options)
      : graph_(graph), region_(region), options_(options), uses_(graph) {
    const std::vector<NodeId>& nodes = graph.region(region).nodes;
    for (size_t i = 0; i < nodes.size(); ++i) position_[nodes[i].index] = i;
  }

  bool run() {
    bool changed = false;
    const std::vector<NodeId> nodes = graph_.region(region_).nodes;
    for (NodeId id : nodes)
      if (is_plain_fusion(id)) changed |= offer(id);
    return changed;
  }

 private:
  // What a result is made of, inside its fusion.
  struct Slice {
    std::vector<NodeId> nodes;      // in order
    std::vector<ValueId> operands;  // of the fusion
    std::vector<ValueId> rows;      // inside: what was reduced, which is kept
  };

  const Node& node(NodeId id) const { return graph_.node(id); }
  const Region& body(NodeId fusion) const { return graph_.region(node(fusion).regions[0]); }
  int64_t bytes(ValueId value) const { return graph_.type(value).byte_count(); }
  int64_t count(ValueId value) const { return num_elements(graph_.type(value).shape); }
  bool is_plain_fusion(NodeId id) const {
    return is<op::Fusion>(node(id)) && !product_of_fusion(graph_, node(id));
  }

  // The last place that reads a value; arguments stay.
  size_t last_use(ValueId value) const {
    if (!graph_.value(value).producer.valid()) return SIZE_MAX;
    size_t last = 0;
    const auto it = kept_until_.find(value.index);
    if (it != kept_until_.end()) last = it->second;
    for (const Use& use : uses_.uses(value)) {
      const auto at = position_.find(use.node.index);
      last = std::max(last, at == position_.end() ? SIZE_MAX : at->second);
    }
    return last;
  }

  bool offer(NodeId fusion) {
    bool changed = false;
    const size_t own = node(fusion).results.size();  // rows that are kept come behind
    for (size_t i = own; i-- > 0;) {
      const ValueId result = node(fusion).results[i];
      if (bytes(result) < options_.fewest_bytes) continue;
      std::vector<NodeId> readers;
      size_t last = 0;
      if (!far_readers(fusion, result, readers, last)) continue;
      const auto slice = slice_of(fusion, i);
      if (!slice) continue;
      // What has to live longer for it must be much less than what it saves.
      int64_t cost = 0;
      for (ValueId operand : slice->operands)
        if (last_use(operand) < last) cost += bytes(operand);
      for (ValueId row : slice->rows) cost += bytes(row);
      if (cost * 4 > bytes(result)) continue;
      if (!fits(readers, *slice)) continue;
      for (ValueId operand : slice->operands)
        kept_until_[operand.index] = std::max(last, last_use(operand));
      for (NodeId reader : readers) move_into(fusion, result, *slice, reader);
      drop_result(fusion, i);
      changed = true;
    }
    return changed;
  }

  // Whether only fusions over as many elements read the result, and they come much later.
  bool far_readers(NodeId fusion, ValueId result, std::vector<NodeId>& readers, size_t& last) {
    for (const Use& use : uses_.uses(result)) {
      const auto at = position_.find(use.node.index);
      if (at == position_.end() || !is_plain_fusion(use.node)) return false;
      const Node& reader = node(use.node);
      // It may have become an operand of others since the uses were noted.
      if (std::find(reader.operands.begin(), reader.operands.end(), result) ==
          reader.operands.end())
        return false;
      if (at->second < position_.at(fusion.index) + options_.distance) return false;
      if (!reads_elements(use.node, result)) return false;
      last = std::max(last, at->second);
      if (std::find(readers.begin(), readers.end(), use.node) == readers.end())
        readers.push_back(use.node);
    }
    return !readers.empty() && !moved_operands_.count(result.index);
  }

  bool reads_elements(NodeId fusion, ValueId value) const {
    int64_t largest = 0;
    std::set<uint32_t> inside;
    for (size_t i = 0; i < node(fusion).operands.size(); ++i)
      if (node(fusion).operands[i] == value) inside.insert(body(fusion).args[i].index);
    for (NodeId id : body(fusion).nodes) {
      const Node& member = node(id);
      for (ValueId operand : member.operands) {
        if (!inside.count(operand.index)) continue;
        const bool reads = member.def->has(kElementwise) || is<op::Reduce>(member);
        if (!reads) return false;
      }
      if (member.def->has(kElementwise))
        largest = std::max(largest, count(member.results[0]));
      else if (is<op::Reduce>(member))
        largest = std::max(largest, count(member.operands[0]));
    }
    return largest == count(value);
  }

  std::optional<Slice> slice_of(NodeId fusion, size_t result) const {
    Slice slice;
    std::map<uint32_t, size_t> args;
    for (size_t i = 0; i < body(fusion).args.size(); ++i) args[body(fusion).args[i].index] = i;
    const ValueId value = node(body(fusion).nodes.back()).operands[result];
    if (args.count(value.index)) return std::nullopt;
    std::set<uint32_t> needed = {value.index};
    std::set<uint32_t> rows;
    size_t expensive = 0;
    const std::vector<NodeId>& nodes = body(fusion).nodes;
    for (size_t i = nodes.size(); i-- > 0;) {
      const Node& member = node(nodes[i]);
      if (member.results.size() != 1 || !needed.count(member.results[0].index)) continue;
      if (is<op::Reduce>(member)) {
        slice.rows.push_back(member.results[0]);
        continue;
      }
      // Ops on rows are kept as rows.
      if ((member.def->has(kElementwise) || is<op::Reshape>(member)) &&
          count(member.results[0]) < count(value)) {
        slice.rows.push_back(member.results[0]);
        continue;
      }
      if (!member.def->has(kElementwise) && !is<op::Reshape>(member) &&
          !is_cheap_leaf(graph_, member))
        return std::nullopt;
      expensive += member.def->has(kSlowFunction);
      slice.nodes.push_back(nodes[i]);
      for (ValueId operand : member.operands) needed.insert(operand.index);
    }
    if (slice.nodes.size() > options_.most_nodes || expensive > options_.most_expensive)
      return std::nullopt;
    for (const auto& [arg, i] : args)
      if (needed.count(arg)) slice.operands.push_back(node(fusion).operands[i]);
    std::reverse(slice.nodes.begin(), slice.nodes.end());
    return slice;
  }

  bool fits(const std::vector<NodeId>& readers, const Slice& slice) const {
    return std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return body(reader).nodes.size() + slice.nodes.size() <= 160;
    });
  }

  ValueId import(NodeId reader, ValueId outside) {
    const std::vector<ValueId>& operands = node(reader).operands;
    const auto it = std::find(operands.begin(), operands.end(), outside);
    if (it != operands.end()) return body(reader).args[static_cast<size_t>(it - operands.begin())];
    graph_.node(reader).operands.push_back(outside);
    moved_operands_.insert(outside.index);
    return graph_.add_argument(node(reader).regions[0], graph_.type(outside));
  }

  // The nodes of the slice stand before those of the reader, and what they make takes the place of
  // the argument.
  void move_into(NodeId fusion, ValueId result, const Slice& slice, NodeId reader) {
    ValueMap& here =
        copies_.try_emplace({fusion.index, reader.index}, ValueMap::sparse()).first->second;
    for (size_t i = 0; i < body(fusion).args.size(); ++i) {
      const ValueId arg = body(fusion).args[i], outside = node(fusion).operands[i];
      if (!here.has(arg) &&
          std::find(slice.operands.begin(), slice.operands.end(), outside) != slice.operands.end())
        here.set(arg, import(reader, outside));
    }
    for (ValueId row : slice.rows)
      if (!here.has(row)) here.set(row, import(reader, returned(fusion, row)));
    const RegionId region = node(reader).regions[0];
    std::vector<NodeId> fresh;
    Cloner clone(graph_, &here);
    for (NodeId id : slice.nodes) {
      if (here.has(node(id).results[0])) continue;
      fresh.push_back(clone.shell(id));
      graph_.node(fresh.back()).parent = region;
    }
    // Behind what was moved here before.
    std::vector<NodeId>& list = graph_.region(region).nodes;
    size_t& at = inserted_[reader.index];
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), fresh.begin(), fresh.end());
    at += fresh.size();
    const ValueId made = here.at(result_inside(fusion, result));
    for (size_t i = 0; i < node(reader).operands.size(); ++i) {
      if (node(reader).operands[i] != result) continue;
      const ValueId arg = body(reader).args[i];
      for (NodeId id : graph_.region(region).nodes)
        for (ValueId& operand : graph_.node(id).operands)
          if (operand == arg) operand = made;
      graph_.node(reader).operands.erase(graph_.node(reader).operands.begin() +
                                         static_cast<std::ptrdiff_t>(i));
      std::vector<ValueId>& args = graph_.region(region).args;
      args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
      for (size_t k = i; k < args.size(); ++k)
        graph_.value(args[k]).index = static_cast<uint32_t>(k);
      break;
    }
  }

  ValueId result_inside(NodeId fusion, ValueId result) const {
    return node(body(fusion).nodes.back()).operands[graph_.value(result).index];
  }
  // A value inside as a result of the fusion.
  ValueId returned(NodeId fusion, ValueId inside) {
    const NodeId end = body(fusion).nodes.back();
    const std::vector<ValueId>& returns = node(end).operands;
    const auto it = std::find(returns.begin(), returns.end(), inside);
    if (it != returns.end()) return node(fusion).results[static_cast<size_t>(it - returns.begin())];
    graph_.node(end).operands.push_back(inside);
    // A value of its own, which changes hands.
    const NodeId maker = graph_.add_node("cleave.fusion", {}, {graph_.type(inside)});
    const ValueId value = graph_.node(maker).results[0];
    graph_.node(maker).results.clear();
    graph_.value(value).producer = fusion;
    graph_.value(value).index = static_cast<uint32_t>(node(fusion).results.size());
    graph_.node(fusion).results.push_back(value);
    return value;
  }
  void drop_result(NodeId fusion, size_t i) {
    const NodeId end = body(fusion).nodes.back();
    auto erase = [&](std::vector<ValueId>& list) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    };
    erase(graph_.node(end).operands);
    erase(graph_.node(fusion).results);
    for (size_t k = i; k < node(fusion).results.size(); ++k)
      graph_.value(node(fusion).results[k]).index = static_cast<uint32_t>(k);
  }

  Graph& graph_;
  const RegionId region_;
  const RecomputeOptions& options_;
  const UseMap uses_;
  std::map<uint32_t, size_t> position_;
  std::map<uint32_t, size_t> kept_until_;  // values that live longer since
  std::set<uint32_t> moved_operands_;      // values that have new readers
  std::map<std::pair<uint32_t, uint32_t>, ValueMap> copies_;
  std::map<uint32_t, size_t> inserted_;  // by reader
};

}  // namespace

bool recompute(Graph& graph, const RecomputeOptions& options) {
  bool changed = false;
  for (size_t i = 0; i < graph.functions.size(); ++i)
    if (graph.functions[i].body.valid())
      changed |= Recompute(graph, graph.functions[i].body, options).run();
  return changed;
}

}  // namespace cleave
