#include "cleave/graph/cloner.h"

namespace cleave {

// Within one graph, references to nodes and regions end when a node is added: so everything is read
// again by id.

ValueId Cloner::mapped(ValueId value) const {
  return &from_ == &to_ ? values_.map(value) : values_.at(value);
}

std::vector<ValueId> Cloner::mapped(const std::vector<ValueId>& values) const {
  return &from_ == &to_ ? values_.map(values) : values_.at(values);
}

NodeId Cloner::shell(NodeId source) {
  const Node& node = from_.node(source);
  std::vector<Type> types;
  types.reserve(node.results.size());
  for (ValueId result : node.results) types.push_back(type_of(result));
  const NodeId copy = to_.add_node_like(node, mapped(node.operands), std::move(types), node.attrs);
  const size_t results = to_.node(copy).results.size();
  for (size_t i = 0; i < results; ++i) {
    const ValueId from = from_.node(source).results[i], to = to_.node(copy).results[i];
    to_.value(to).name = from_.value(from).name;
    values_.set(from, to);
  }
  return copy;
}

NodeId Cloner::detached(NodeId source) {
  const NodeId copy = shell(source);
  const size_t regions = from_.node(source).regions.size();
  for (size_t i = 0; i < regions; ++i) {
    const RegionId inner = to_.add_region(copy);
    region(from_.node(source).regions[i], inner);
  }
  if (copied) copied(source, copy);
  return copy;
}

NodeId Cloner::copy(NodeId source, RegionId target) {
  const NodeId copy = detached(source);
  to_.append(target, copy);
  return copy;
}

void Cloner::node(NodeId source, RegionId target) {
  if (!rewrite || !rewrite(source, target)) copy(source, target);
}

void Cloner::nodes(RegionId source, RegionId target) {
  const size_t count = from_.region(source).nodes.size();
  for (size_t i = 0; i + 1 < count; ++i) node(from_.region(source).nodes[i], target);
}

void Cloner::arguments(RegionId source, RegionId target) {
  const size_t count = from_.region(source).args.size();
  for (size_t i = 0; i < count; ++i) {
    const ValueId arg = from_.region(source).args[i];
    values_.set(arg, to_.add_argument(target, type_of(arg), from_.value(arg).name));
  }
}

void Cloner::region(RegionId source, RegionId target) {
  arguments(source, target);
  const size_t count = from_.region(source).nodes.size();
  for (size_t i = 0; i < count; ++i) node(from_.region(source).nodes[i], target);
}

void Cloner::function(const Function& source) {
  Function copy = source;
  if (source.body.valid()) {
    copy.body = to_.add_region();
    region(source.body, copy.body);
  }
  to_.functions.push_back(std::move(copy));
}

std::vector<ValueId> Cloner::returned(RegionId source) const {
  return mapped(from_.node(from_.terminator(source)).operands);
}

std::vector<ValueId> Cloner::inline_body(RegionId body, std::span<const ValueId> args,
                                         RegionId target) {
  values_.set(from_.region(body).args, args);
  nodes(body, target);
  return returned(body);
}

void Cloner::inline_region(NodeId node, RegionId body, RegionId target) {
  const std::vector<ValueId> results = inline_body(body, mapped(from_.node(node).operands), target);
  values_.set(from_.node(node).results, results);
}

}  // namespace cleave
