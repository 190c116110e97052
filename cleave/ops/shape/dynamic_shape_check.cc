#include "cleave/ops/shape/dynamic_shape_check.h"

#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/shape/shape_util.h"

namespace cleave {
namespace {

// The length of the operand with the sizes is the rank of the result, which is known.
void require_known_length(const Graph& graph, const Node& node, size_t i) {
  const Type& type = tensor_operand(graph, node, i);
  require(type.has_static_shape(), node, "operand {} must have a known length, got {}", i,
          to_string(type));
}

}  // namespace

std::optional<std::vector<int64_t>> constant_operand(const Graph& graph, const Node& node,
                                                     size_t i) {
  const Type& type = graph.operand_type(node, i);
  const NodeId producer = graph.value(node.operands[i]).producer;
  if (!producer.valid() || !type.is_tensor() || type.unranked || type.rank() > 1 ||
      !(is_integer(type.dtype) || type.dtype == DType::Index))
    return std::nullopt;
  const Node& constant = graph.node(producer);
  const Attribute* value = constant.attrs.find("value");
  const auto* elements = value ? value->as<ElementsAttr>() : nullptr;
  if (!constant.def->has(kConstantLike) || !elements || !elements->literal.bytes)
    return std::nullopt;
  return constant.attrs.get_ints("value");
}

void verify_size_operand(const Graph& graph, const Node& node, size_t i) {
  if (const auto sizes = constant_operand(graph, node, i))
    require_sizes(node, *sizes, graph.result_type(node));
}

void verify_dynamic_iota(const Graph& graph, const Node& node) {
  verify_size_operand(graph, node, 0);
}

void verify_dynamic_reshape(const Graph& graph, const Node& node) {
  require_known_length(graph, node, 1);
  verify_size_operand(graph, node, 1);
  const Type &operand = graph.operand_type(node, 0), &result = graph.result_type(node);
  if (!operand.has_static_shape()) return;
  const auto sizes = constant_operand(graph, node, 1);
  if (!sizes && !result.has_static_shape()) return;
  const Shape& shape = sizes ? *sizes : result.shape;
  require(num_elements(shape) == num_elements(operand.shape), node,
          "the elements of {} don't fill the shape {}", to_string(operand), to_string(shape));
}

void verify_dynamic_broadcast(const Graph& graph, const Node& node) {
  require_known_length(graph, node, 1);
  verify_size_operand(graph, node, 1);
  const Type& operand = graph.operand_type(node, 0);
  if (const auto sizes = constant_operand(graph, node, 1))
    require_broadcastable(node, operand, Type::tensor(graph.result_type(node).dtype, *sizes),
                          node.attrs.get_ints("broadcast_dimensions"));
  std::vector<int64_t> hints = node.attrs.get_ints_or_empty("known_expanding_dimensions");
  const std::vector<int64_t> more = node.attrs.get_ints_or_empty("known_nonexpanding_dimensions");
  hints.insert(hints.end(), more.begin(), more.end());
  require_distinct_dims(node, "the known dimensions", hints, operand.rank());
}

void verify_dynamic_pad(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const auto low = constant_operand(graph, node, 2), high = constant_operand(graph, node, 3);
  const auto interior = constant_operand(graph, node, 4);
  if (!interior) return;
  for (int64_t size : *interior)
    require(size >= 0, node, "interior padding {} must not be negative", ints_text(*interior));
  if (!low || !high) return;
  require_padding(node, shape, *low, *high, *interior);
  Shape padded = shape;
  const Type& result = graph.result_type(node);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (is_dynamic(shape[d])) continue;
    padded[d] += (*low)[d] + (*high)[d] + std::max<int64_t>(shape[d] - 1, 0) * (*interior)[d];
    require(padded[d] >= 0 && compatible(padded[d], result.shape[d]), node,
            "padding makes dimension {} of {} one of {}, and {} is declared", d,
            to_string(graph.operand_type(node, 0)), padded[d], to_string(result));
  }
}

void verify_real_dynamic_slice(const Graph& graph, const Node& node) {
  const auto start = constant_operand(graph, node, 1), limit = constant_operand(graph, node, 2);
  const auto step = constant_operand(graph, node, 3);
  if (!start || !limit || !step) return;
  const Type &operand = graph.operand_type(node, 0), &result = graph.result_type(node);
  for (size_t d = 0; d < start->size(); ++d) {
    const int64_t size = operand.shape[d], from = (*start)[d], to = (*limit)[d], by = (*step)[d];
    require(from >= 0 && from <= to && by > 0 && (is_dynamic(size) || to <= size), node,
            "[{}:{}:{}] does not fit dimension {} of {}", from, to, by, d, to_string(operand));
    const int64_t taken = (to - from) / by + ((to - from) % by != 0);
    require(compatible(taken, result.shape[d]), node,
            "[{}:{}:{}] takes {} elements of dimension {}, and {} is declared", from, to, by, taken,
            d, to_string(result));
  }
}

}  // namespace cleave
