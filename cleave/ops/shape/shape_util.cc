#include "cleave/ops/shape/shape_util.h"

#include <algorithm>

#include "cleave/graph/literal.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"

namespace cleave {

Shape resolve_shape(const Node& node, Shape shape, int64_t elements) {
  auto open = std::find(shape.begin(), shape.end(), kDynamicSize);
  for (int64_t size : shape)
    require(size >= 0 || size == kDynamicSize, node, "the size {} is negative", size);
  if (open == shape.end()) {
    require(num_elements(shape) == elements, node, "{} elements don't fill the shape {}", elements,
            to_string(shape));
    return shape;
  }
  *open = 1;
  const bool one = std::find(shape.begin(), shape.end(), kDynamicSize) == shape.end();
  const int64_t rest = one ? num_elements(shape) : 0;
  require(rest > 0 && elements % rest == 0, node,
          "can't tell the sizes of the result {} from {} elements", to_string(shape), elements);
  *open = elements / rest;
  return shape;
}

void require_padding(const Node& node, const Shape& shape, const Shape& low, const Shape& high,
                     const Shape& interior) {
  constexpr int64_t kMost = int64_t{1} << 60;
  for (size_t d = 0; d < shape.size(); ++d) {
    require(interior[d] >= 0, node, "interior padding {} must not be negative",
            ints_text(interior));
    int64_t inside = 0;
    const bool fits =
        low[d] >= -kMost && low[d] <= kMost && high[d] >= -kMost && high[d] <= kMost &&
        interior[d] <= kMost &&
        (is_dynamic(shape[d]) ||
         (!__builtin_mul_overflow(shape[d], interior[d], &inside) && inside <= kMost));
    require(fits, node, "padding {}, {} and {} of dimension {} of {} is out of range", low[d],
            high[d], interior[d], d, to_string(shape));
  }
}

void require_sizes(const Node& node, const Shape& sizes, const Type& declared) {
  for (int64_t size : sizes) require(size >= 0, node, "the size {} is negative", size);
  num_elements(sizes);  // throws where they are too many
  require(declared.unranked || compatible(sizes, declared.shape), node,
          "the sizes are {}, and {} is declared", ints_text(sizes), to_string(declared));
}

void require_broadcastable(const Node& node, const Type& operand, const Type& result,
                           const std::vector<int64_t>& dims) {
  if (operand.dtype != result.dtype)
    fail(node, "{} and {} differ in element type", to_string(operand), to_string(result));
  if (dims.size() != operand.rank())
    fail(node, "broadcast_dimensions {} must have one entry per dimension of {}", ints_text(dims),
         to_string(operand));
  require_distinct_dims(node, "broadcast_dimensions", dims, result.rank());
  for (size_t d = 0; d < dims.size(); ++d)
    if (operand.shape[d] != 1 && !compatible(operand.shape[d], result.shape[dims[d]]))
      fail(node, "dimension {} of {} must be 1 or the size of dimension {} of {}", d,
           to_string(operand), dims[d], to_string(result));
}

OpShardingRule broadcast_rule(const Graph& graph, const Node& node,
                              const std::vector<int64_t>& dims) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  const size_t others = node.operands.size() - 1;  // sizes of the dynamic forms
  RuleBuilder builder(graph, node);
  auto factor = [&](int in_dim, int out_dim, int64_t size) {
    std::vector<int> operands(1 + others, kNoDim);
    operands[0] = in_dim;
    builder.factor(std::move(operands), {out_dim}, size);
  };
  std::vector<int> source(out.size(), kNoDim);
  for (size_t d = 0; d < dims.size(); ++d) source[dims[d]] = int(d);
  for (size_t d = 0; d < out.size(); ++d) {
    if (source[d] != kNoDim && in[source[d]] == 1 && out[d] != 1) {
      factor(source[d], kNoDim, 1);
      source[d] = kNoDim;
    }
    factor(source[d], int(d), out[d]);
  }
  return builder.build();
}

bool is_zero_constant(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid() || graph.node(producer).name() != "stablehlo.constant") return false;
  const Literal& literal = graph.node(producer).attrs.get_literal("value");
  return literal.bytes && std::all_of(literal.bytes->begin(), literal.bytes->end(),
                                      [](std::byte b) { return b == std::byte{0}; });
}

PartialTransfer pad_partial(const Graph& graph, const Node& node) {
  PartialTransfer rows;
  auto add = [&](ReduceOp op, bool value, bool operand = true) {
    PartialRow row{op, std::vector<bool>(node.operands.size(), false), op};
    row.operands[0] = operand;
    row.operands[1] = value;
    rows.push_back(std::move(row));
  };
  for (ReduceOp op : kAllReduceOps) add(op, true);
  for (ReduceOp op : kIdempotentReduceOps) {
    add(op, false);
    add(op, true, false);
  }
  if (is_zero_constant(graph, node.operands[1])) add(ReduceOp::Sum, false);
  return rows;
}

}  // namespace cleave
