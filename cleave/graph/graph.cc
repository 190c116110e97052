#include "cleave/graph/graph.h"

#include <algorithm>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"

namespace cleave {

const std::string& Node::name() const { return def->name; }

MeshPtr Graph::find_mesh(std::string_view symbol) const {
  for (const MeshPtr& mesh : meshes)
    if (mesh->name == symbol) return mesh;
  return nullptr;
}

const Function* Graph::find_function(std::string_view symbol) const {
  for (const Function& function : functions)
    if (function.name == symbol) return &function;
  return nullptr;
}

Function* Graph::find_function(std::string_view symbol) {
  return const_cast<Function*>(std::as_const(*this).find_function(symbol));
}

RegionId Graph::add_region(NodeId owner) {
  const RegionId id{static_cast<uint32_t>(regions_.size())};
  regions_.push_back({{}, {}, owner});
  if (owner.valid()) node(owner).regions.push_back(id);
  return id;
}

ValueId Graph::add_argument(RegionId region_id, Type type, std::string name) {
  const ValueId id{static_cast<uint32_t>(values_.size())};
  std::vector<ValueId>& args = region(region_id).args;
  values_.push_back(
      {std::move(type), {}, region_id, static_cast<uint32_t>(args.size()), std::move(name)});
  args.push_back(id);
  return id;
}

NodeId Graph::add(Node node, std::vector<Type> result_types) {
  const NodeId id{static_cast<uint32_t>(nodes_.size())};
  node.results.reserve(result_types.size());
  for (Type& type : result_types) {
    const auto index = static_cast<uint32_t>(node.results.size());
    node.results.push_back({static_cast<uint32_t>(values_.size())});
    values_.push_back({std::move(type), id, {}, index, {}});
  }
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Graph::add_node(std::string_view op, std::vector<ValueId> operands,
                       std::vector<Type> result_types, AttrDict attrs) {
  Node node;
  node.def = &op_named(op);
  node.operands = std::move(operands);
  node.attrs = std::move(attrs);
  return add(std::move(node), std::move(result_types));
}

NodeId Graph::add_node_like(const Node& like, std::vector<ValueId> operands,
                            std::vector<Type> result_types, AttrDict attrs) {
  Node node;
  node.def = like.def;
  node.location = like.location;
  node.operands = std::move(operands);
  node.attrs = std::move(attrs);
  return add(std::move(node), std::move(result_types));
}

void Graph::append(RegionId region_id, NodeId node_id) {
  region(region_id).nodes.push_back(node_id);
  node(node_id).parent = region_id;
}

void Graph::insert(NodeId position, NodeId node_id, size_t offset) {
  const RegionId parent = node(position).parent;
  std::vector<NodeId>& nodes = region(parent).nodes;
  auto it = std::find(nodes.begin(), nodes.end(), position);
  internal_check(it != nodes.end(), "insert next to a node that is in no region");
  nodes.insert(it + static_cast<std::ptrdiff_t>(offset), node_id);
  node(node_id).parent = parent;
}

void Graph::insert_before(NodeId position, NodeId node) { insert(position, node, 0); }
void Graph::insert_after(NodeId position, NodeId node) { insert(position, node, 1); }

void Graph::remove(NodeId node_id) {
  std::erase(region(node(node_id).parent).nodes, node_id);
  node(node_id).parent = {};
}

void Graph::replace_all_uses(ValueId from, ValueId to) {
  for (Node& node : nodes_) std::replace(node.operands.begin(), node.operands.end(), from, to);
}

void Graph::walk(RegionId region_id, const std::function<void(NodeId)>& visit) const {
  const std::vector<NodeId> nodes = region(region_id).nodes;
  for (NodeId id : nodes) {
    visit(id);
    const std::vector<RegionId> inner = node(id).regions;
    for (RegionId child : inner) walk(child, visit);
  }
}

void Graph::walk(const std::function<void(NodeId)>& visit) const {
  for (size_t i = 0; i < functions.size(); ++i)
    if (functions[i].body.valid()) walk(functions[i].body, visit);
}

UseMap::UseMap(const Graph& graph) : begin_(graph.num_values() + 1) {
  std::vector<NodeId> order;
  graph.walk([&](NodeId id) {
    order.push_back(id);
    for (ValueId operand : graph.node(id).operands) ++begin_[operand.index + 1];
  });
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  uses_.resize(begin_.back());
  std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    for (uint32_t i = 0; i < node.operands.size(); ++i)
      uses_[next[node.operands[i].index]++] = {id, i};
  }
}

std::span<const Use> UseMap::uses(ValueId value) const {
  return {uses_.data() + begin_[value.index], begin_[value.index + 1] - begin_[value.index]};
}

}  // namespace cleave
