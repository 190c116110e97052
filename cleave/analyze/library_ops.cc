#include "cleave/analyze/library_ops.h"

#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

const Node* maker(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  return producer.valid() ? &graph.node(producer) : nullptr;
}

bool is_constant(const Graph& graph, ValueId value) {
  const Node* node = maker(graph, value);
  if (!node) return false;
  if (node->def->has(kRepeats)) return is_constant(graph, node->operands[0]);
  return node->def->has(kConstantLike) && !is<op::Iota>(*node);
}

// A product of matrices in few bits, and what computes in more of them: the conversion between them
// is an op. Norms of images take and return few bits.
bool converts_for_product(const Graph& graph, const Node& node, const Users& users) {
  if (!is_float(graph.operand_type(node, 0).dtype) || !is_float(graph.result_type(node).dtype))
    return false;
  const auto is_product = [&](NodeId id) { return dot_dims_of(graph, graph.node(id)).has_value(); };
  const NodeId before = graph.value(node.operands[0]).producer;
  const std::vector<NodeId>& after = users[node.results[0].index];
  return (before.valid() && is_product(before)) ||
         std::any_of(after.begin(), after.end(), is_product);
}

bool is_library_op(const Graph& graph, const Node& node, const Users& users) {
  if (is<op::Convert>(node)) return converts_for_product(graph, node, users);
  if (is<op::Maximum, op::Minimum>(node))
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) { return is_constant(graph, operand); });
  return node.def->has(kAssembles) || is<op::Gather>(node);
}

}  // namespace

bool is_made_of_positions(const Graph& graph, ValueId value) {
  const Node* node = maker(graph, value);
  if (!node || is_constant(graph, value)) return false;
  if (is<op::Iota>(*node)) return true;
  if (!node->def->has(kElementwise) && !node->def->has(kViewLike)) return false;
  return std::all_of(node->operands.begin(), node->operands.end(), [&](ValueId operand) {
    return is_constant(graph, operand) || is_made_of_positions(graph, operand);
  });
}

bool is_bias_of_product(const Graph& graph, const Node& node) {
  if (!is<op::Add>(node)) return false;
  const NodeId product = graph.value(node.operands[0]).producer;
  const NodeId spread = graph.value(node.operands[1]).producer;
  if (!product.valid() || !spread.valid() || !graph.node(spread).def->has(kRepeats)) return false;
  const Type& vector = graph.operand_type(graph.node(spread), 0);
  if (!dot_dims_of(graph, graph.node(product)) || vector.shape.size() != 1) return false;
  return vector.shape[0] == graph.result_type(node).shape.back();
}

std::vector<ValueId> values_of_library_op(const Graph& graph, const Node& node,
                                          const Users& users) {
  std::vector<ValueId> values;
  if (is_library_op(graph, node, users)) {
    values.assign(node.operands.begin(), node.operands.end());
    values.push_back(node.results[0]);
  }
  // A table is made op by op.
  if (node.results.size() == 1 && is_float(graph.result_type(node).dtype) &&
      !node.def->has(kRepeats) && is_made_of_positions(graph, node.results[0]))
    values.push_back(node.results[0]);
  return values;
}

std::map<ValueId, ValueId> clamped_values(const Graph& graph) {
  std::map<ValueId, ValueId> clamped;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (!is<op::Maximum, op::Minimum>(node)) return;
    for (size_t i = 0; i < 2; ++i)
      if (is_constant(graph, node.operands[1 - i]) && !is_constant(graph, node.operands[i]))
        clamped.try_emplace(node.operands[i], node.results[0]);
  });
  return clamped;
}

std::vector<std::pair<NodeId, size_t>> read_clamped(Graph& graph) {
  const std::map<ValueId, ValueId> clamped = clamped_values(graph);
  std::vector<std::pair<NodeId, size_t>> changed;
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is<op::Compare>(node)) return;
    for (size_t i = 0; i < 2; ++i) {
      const auto known = clamped.find(node.operands[i]);
      if (known == clamped.end() || !is_constant(graph, node.operands[1 - i])) continue;
      const NodeId clamp = graph.value(known->second).producer;
      if (graph.node(clamp).parent != node.parent || !(clamp < id)) continue;
      node.operands[i] = known->second;
      changed.emplace_back(id, i);
    }
  });
  return changed;
}

bool counts_as_tensor(const Graph& graph, ValueId value, double largest_bytes) {
  constexpr double kLeastShare = 1.0 / 16;
  const Type& type = graph.type(value);
  if (!type.is_tensor() || !type.has_static_shape()) return false;
  const auto real =
      std::count_if(type.shape.begin(), type.shape.end(), [](int64_t size) { return size > 1; });
  if (real <= 1) return false;
  if (is_made_of_positions(graph, value)) return true;
  const Node* node = maker(graph, value);
  return static_cast<double>(type.byte_count()) >= kLeastShare * largest_bytes &&
         !(node && is<op::Reduce>(*node));
}

std::vector<bool> update_ops(const Graph& graph, RegionId region,
                             const std::vector<bool>& is_donated) {
  const std::vector<NodeId>& nodes = graph.region(region).nodes;
  std::vector<bool> updates(graph.num_nodes()), from_state(graph.num_values());
  std::vector<int> users(graph.num_values());
  for (ValueId arg : graph.region(region).args) from_state[arg.index] = is_donated[arg.index];
  const auto is_elementwise = [](const Node& node) {
    return node.results.size() == 1 && (node.def->has(kElementwise) || node.def->has(kRepeats));
  };
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    for (ValueId operand : node.operands) ++users[operand.index];
    if (!is_elementwise(node)) continue;
    from_state[node.results[0].index] =
        std::any_of(node.operands.begin(), node.operands.end(),
                    [&](ValueId operand) { return from_state[operand.index]; });
  }
  // A gradient has the type of its parameter: the conversion to it comes before the optimizer.
  const auto makes_gradient = [&](const Node& node) {
    if (!is<op::Convert>(node)) return false;
    const std::vector<ValueId>& args = graph.region(region).args;
    return std::none_of(args.begin(), args.end(), [&](ValueId arg) {
      return is_donated[arg.index] && graph.type(arg) == graph.operand_type(node, 0);
    });
  };
  std::vector<bool> wanted(graph.num_values());
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& node = graph.node(*it);
    if (node.def->has(kTerminator)) {
      for (ValueId operand : node.operands) wanted[operand.index] = from_state[operand.index];
      continue;
    }
    if (!is_elementwise(node)) continue;
    const ValueId result = node.results[0];
    if (!wanted[result.index]) continue;
    if (!from_state[result.index] && (users[result.index] > 1 || makes_gradient(node))) continue;
    updates[it->index] = true;
    for (ValueId operand : node.operands) wanted[operand.index] = true;
  }
  return updates;
}

}  // namespace cleave::analyze
