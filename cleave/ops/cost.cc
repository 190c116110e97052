#include "cleave/ops/cost.h"

#include "cleave/graph/op_def.h"
#include "cleave/kernels/workspace.h"

namespace cleave {
namespace {

double bytes_of(const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  return type.is_tensor() && type.has_static_shape() && type.dtype != DType::Other
             ? static_cast<double>(type.byte_count())
             : 0;
}

}  // namespace

OpCost default_cost(const Graph& graph, const Node& node) {
  OpCost cost;
  for (ValueId operand : node.operands) cost.bytes_read += bytes_of(graph, operand);
  for (ValueId result : node.results) {
    cost.bytes_written += bytes_of(graph, result);
    const Type& type = graph.type(result);
    if (node.def->has(kElementwise) && type.is_tensor() && type.has_static_shape())
      cost.flops += static_cast<double>(num_elements(type.shape));
  }
  return cost;
}

OpCost no_cost(const Graph&, const Node&) { return {}; }

OpCost moved_cost(const Graph& graph, const Node& node) {
  OpCost cost;
  for (ValueId result : node.results) cost.bytes_written += bytes_of(graph, result);
  cost.bytes_read = cost.bytes_written;
  return cost;
}

OpCost op_cost(const Graph& graph, const Node& node) {
  if (node.def->opaque) return default_cost(graph, node);
  for (Trait nothing : {kTerminator, kDataFlow, kCall, kConstantLike, kCollective})
    if (node.def->has(nothing)) return {};
  for (ValueId value : node.operands)
    if (graph.type(value).is_tensor() && !graph.type(value).has_static_shape()) return {};
  for (ValueId value : node.results)
    if (graph.type(value).is_tensor() && !graph.type(value).has_static_shape()) return {};
  return node.def->cost ? node.def->cost(graph, node) : default_cost(graph, node);
}

int64_t op_workspace(const Graph& graph, const Node& node, std::span<const Array> operands) {
  if (node.def->workspace) return node.def->workspace(graph, node, operands);
  return node.def->has(kElementwise) ? packed_operand_bytes(operands) : 0;
}

int64_t strided_operands_workspace(const Graph&, const Node&, std::span<const Array> operands) {
  return strided_operand_bytes(operands);
}

}  // namespace cleave
