#include "cleave/graph/rewrite.h"

namespace cleave {
namespace {

using Copies = std::unordered_map<uint32_t, ValueId>;

void clone_into(Graph& graph, RegionId source, RegionId target, Copies& copies) {
  const std::vector<ValueId> args = graph.region(source).args;
  for (ValueId arg : args) {
    Type type = graph.type(arg);
    std::string name = graph.value(arg).name;
    copies[arg.index] = graph.add_argument(target, std::move(type), std::move(name));
  }
  const std::vector<NodeId> nodes = graph.region(source).nodes;
  for (NodeId id : nodes) {
    const Node node = graph.node(id);
    std::vector<ValueId> operands = node.operands;
    for (ValueId& operand : operands)
      if (auto it = copies.find(operand.index); it != copies.end()) operand = it->second;
    std::vector<Type> types;
    for (ValueId result : node.results) types.push_back(graph.type(result));
    const NodeId copy =
        graph.add_node(node.name, std::move(operands), std::move(types), node.attrs);
    graph.node(copy).location = node.location;
    graph.append(target, copy);
    for (size_t i = 0; i < node.results.size(); ++i)
      copies[node.results[i].index] = graph.node(copy).results[i];
    for (RegionId inner : node.regions) clone_into(graph, inner, graph.add_region(copy), copies);
  }
}

}  // namespace

RegionId clone_region(Graph& graph, RegionId region) {
  Copies copies;
  const RegionId target = graph.add_region();
  clone_into(graph, region, target, copies);
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
