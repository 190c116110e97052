#include "cleave/graph/rewrite.h"

#include "cleave/graph/cloner.h"

namespace cleave {

RegionId clone_region(Graph& graph, RegionId region) {
  const RegionId target = graph.add_region();
  Cloner(graph, ValueMap::sparse()).region(region, target);
  return target;
}

void GraphRewrite::insert_before(NodeId position, NodeId node) {
  before_[position.index].push_back(node);
}
void GraphRewrite::insert_after(NodeId position, NodeId node) {
  after_[position.index].push_back(node);
}
void GraphRewrite::insert_at_start(RegionId region, NodeId node) {
  start_[region.index].push_back(node);
}
void GraphRewrite::erase(NodeId node) {
  if (erased_.size() <= node.index) erased_.resize(graph_.num_nodes());
  erased_[node.index] = 1;
}
void GraphRewrite::replace_uses(ValueId from, ValueId to, NodeId except) {
  replaced_[from.index] = {to, except};
}

ValueId GraphRewrite::target(ValueId value, NodeId user) const {
  auto it = replaced_.find(value.index);
  while (it != replaced_.end() && it->second.except != user) {
    value = it->second.to;
    it = replaced_.find(value.index);
  }
  return value;
}

void GraphRewrite::rebuild(RegionId region) {
  std::vector<NodeId> nodes;
  auto add = [&](NodeId id) {
    nodes.push_back(id);
    graph_.node(id).parent = region;
  };
  auto add_list = [&](const Lists& lists, uint32_t key) {
    if (lists.empty()) return;
    if (auto it = lists.find(key); it != lists.end())
      for (NodeId id : it->second) add(id);
  };
  add_list(start_, region.index);
  for (NodeId id : graph_.region(region).nodes) {
    add_list(before_, id.index);
    if (id.index >= erased_.size() || !erased_[id.index]) add(id);
    add_list(after_, id.index);
  }
  add_list(appended_, region.index);
  for (NodeId id : nodes) {
    if (!replaced_.empty())
      for (ValueId& operand : graph_.node(id).operands) operand = target(operand, id);
    for (RegionId inner : graph_.node(id).regions) rebuild(inner);
  }
  graph_.region(region).nodes = std::move(nodes);
}

void GraphRewrite::apply(RegionId region) { rebuild(region); }

void GraphRewrite::apply() {
  for (const Function& function : graph_.functions)
    if (function.body.valid()) rebuild(function.body);
}

}  // namespace cleave
