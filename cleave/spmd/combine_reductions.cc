#include "cleave/spmd/combine_reductions.h"

#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

class Combiner {
 public:
  explicit Combiner(Program& program) : program_(program), graph_(program.graph) {}

  int64_t run() {
    const RegionId body = program_.entry_function().body;
    int64_t gone = 0;
    // Each round is about the all_reduces that are like one that no round was about.
    std::vector<NodeId> seen;
    for (size_t i = 0; i < graph_.region(body).nodes.size(); ++i) {
      const NodeId id = graph_.region(body).nodes[i];
      if (!is_candidate(id) ||
          std::ranges::any_of(seen, [&](NodeId other) { return alike(id, other); }))
        continue;
      seen.push_back(id);
      gone += round(body, id);
      i = static_cast<size_t>(-1);  // nodes have moved
    }
    return gone;
  }

 private:
  const ShardingSpec& spec_of(ValueId value) const { return program_.layout(value).spec; }

  bool is_candidate(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is<op::SdyAllReduce>(node) || node.operands.size() != 1) return false;
    const Type& type = graph_.result_type(node);
    return type.is_tensor() && type.shape.empty() && spec_of(node.operands[0]).is_partial() &&
           !program_.layout(node.operands[0]).boxes;
  }

  bool alike(NodeId a, NodeId b) const {
    const Node &x = graph_.node(a), &y = graph_.node(b);
    return graph_.result_type(x) == graph_.result_type(y) &&
           spec_of(x.operands[0]) == spec_of(y.operands[0]) &&
           spec_of(x.results[0]) == spec_of(y.results[0]);
  }

  // On a member of the window; regions may use values from outside.
  bool is_dependent(const Node& node) const {
    auto any = [&](const std::vector<ValueId>& values) {
      return std::ranges::any_of(
          values, [&](ValueId v) { return v.index < dependent_.size() && dependent_[v.index]; });
    };
    bool found = any(node.operands);
    for (RegionId region : node.regions)
      graph_.walk(region, [&](NodeId id) { found |= any(graph_.node(id).operands); });
    return found;
  }

  // Its place does not matter beyond what it reads: no effect, in its regions neither.
  bool is_free(const Node& node) const {
    auto pure = [](const Node& n) { return is_transfer(n) || n.def->has(kPure); };
    bool free = pure(node);
    for (RegionId region : node.regions)
      graph_.walk(region, [&](NodeId id) {
        const Node& inner = graph_.node(id);
        free &= pure(inner) || inner.def->has(kTerminator);
      });
    return free;
  }

  // May stand after what it stood before: it makes numbers alone.
  bool may_wait(const Node& node) const {
    return node.regions.empty() && std::ranges::all_of(node.results, [&](ValueId result) {
             return graph_.type(result).is_tensor() && graph_.type(result).shape.empty();
           });
  }

  int64_t round(RegionId body, NodeId like) {
    const std::vector<NodeId> nodes = graph_.region(body).nodes;
    std::vector<NodeId> order;
    int64_t gone = 0;
    dependent_.assign(graph_.num_values(), false);
    auto close = [&] {
      if (members_.size() < 2) {
        order.insert(order.end(), window_.begin(), window_.end());
      } else {
        order.insert(order.end(), early_.begin(), early_.end());
        combine(order);
        order.insert(order.end(), late_.begin(), late_.end());
        gone += static_cast<int64_t>(members_.size()) - 1;
      }
      for (std::vector<NodeId>* list : {&window_, &early_, &late_, &members_}) list->clear();
      dependent_.assign(graph_.num_values(), false);
    };
    for (NodeId id : nodes) {
      const Node node = graph_.node(id);  // a copy: closing adds nodes
      const bool ends = !is_free(node) || node.def->has(kTerminator);
      const bool member = is_candidate(id) && alike(id, like);
      const bool waits = is_dependent(node);
      if (ends || (waits && (member || !may_wait(node)))) close();
      if (member) {
        members_.push_back(id);
        dependent_[node.results[0].index] = true;
      } else if (members_.empty()) {
        order.push_back(id);
        continue;
      } else if (waits) {
        late_.push_back(id);
        for (ValueId result : node.results) dependent_[result.index] = true;
      } else {
        early_.push_back(id);
      }
      window_.push_back(id);
    }
    close();
    graph_.region(body).nodes = std::move(order);
    return gone;
  }

  ValueId add(std::string_view op, std::vector<ValueId> operands, Type type, AttrDict attrs,
              ShardingSpec spec, std::vector<NodeId>& order) {
    const RegionId parent = program_.entry_function().body;
    const NodeId id = graph_.add_node(op, std::move(operands), {std::move(type)}, std::move(attrs));
    graph_.append(parent, id);  // where it stands is decided by `order`
    order.push_back(id);
    program_.layouts.resize(graph_.num_values());
    const ValueId result = graph_.node(id).results[0];
    program_.layouts[result.index] = {std::move(spec), nullptr};
    return result;
  }

  void combine(std::vector<NodeId>& order) {
    const Node first = graph_.node(members_[0]);
    const Type number = graph_.result_type(first);
    Type one = number, all = number;
    one.shape = {1};
    all.shape = {static_cast<int64_t>(members_.size())};
    ShardingSpec pending = spec_of(first.operands[0]), complete = spec_of(first.results[0]);
    pending.dims = complete.dims = {DimSpec{}};
    const ShardingSpec scalar = spec_of(first.results[0]);

    std::vector<ValueId> parts;
    for (NodeId member : members_)
      parts.push_back(
          add("stablehlo.reshape", {graph_.node(member).operands[0]}, one, {}, pending, order));
    AttrDict along;
    along.set("dimension", int_attr(0));
    const ValueId joined =
        add("stablehlo.concatenate", std::move(parts), all, std::move(along), pending, order);
    AttrDict attrs = first.attrs;
    attrs.set("out_sharding", ShardingAttr{complete});
    const ValueId reduced = add("sdy.all_reduce", {joined}, all, std::move(attrs), complete, order);
    for (size_t i = 0; i < members_.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      AttrDict part;
      part.set("start_indices", ints_attr({at}));
      part.set("limit_indices", ints_attr({at + 1}));
      part.set("strides", ints_attr({1}));
      const ValueId element =
          add("stablehlo.slice", {reduced}, one, std::move(part), complete, order);
      const ValueId value = add("stablehlo.reshape", {element}, number, {}, scalar, order);
      graph_.replace_all_uses(graph_.node(members_[i]).results[0], value);
    }
  }

  Program& program_;
  Graph& graph_;
  std::vector<bool> dependent_;                          // by value: on a member of the window
  std::vector<NodeId> window_, early_, late_, members_;  // since the first member
};

}  // namespace

int64_t combine_scalar_reductions(Program& program) {
  if (!program.mesh) return 0;
  return Combiner(program).run();
}

}  // namespace cleave
