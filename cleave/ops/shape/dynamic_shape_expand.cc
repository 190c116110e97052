#include <cstring>

#include "cleave/ops/expansions.h"
#include "cleave/ops/expr.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/op.h"
#include "cleave/ops/shape/family.h"

// Ops whose sizes are operands, as the ops whose sizes are attributes.
namespace cleave {
namespace {

std::vector<int64_t> constant_ints(const Graph& graph, const Node& node, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid() || !is<op::Constant>(graph.node(producer)))
    fail(node, "has a derivative where its sizes are constants alone");
  const Literal& literal = graph.node(producer).attrs.get_literal("value");
  const auto size = static_cast<size_t>(byte_size(literal.type.dtype));
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < literal.num_elements(); ++i) {
    int64_t number = 0;
    std::memcpy(&number, literal.data() + (literal.splat ? 0 : static_cast<size_t>(i) * size),
                size);
    if (size == 4) number = static_cast<int32_t>(number);
    numbers.push_back(number);
  }
  return numbers;
}

// ---- sizes that the type of the result has: of programs, whose types are all static. Derivatives
// have rules for these ops.

std::vector<ValueId> expand_dimension_size(GraphBuilder& b, const Node& node,
                                           std::span<const ValueId> operands, ExpandUse) {
  const int64_t size = b.shape(operands[0])[node.attrs.get_int("dimension")];
  return {b.constant(static_cast<double>(size), DType::I32)};
}

std::vector<ValueId> expand_dynamic_reshape(GraphBuilder& b, const Node& node,
                                            std::span<const ValueId> operands, ExpandUse) {
  return {b.reshape(operands[0], b.shape(node.results[0]))};
}

std::vector<ValueId> expand_dynamic_iota(GraphBuilder& b, const Node& node,
                                         std::span<const ValueId>, ExpandUse) {
  const Type type = b.type(node.results[0]);
  return {b.iota(type.dtype, type.shape, node.attrs.get_int("iota_dimension"))};
}

std::vector<ValueId> expand_dynamic_broadcast(GraphBuilder& b, const Node& node,
                                              std::span<const ValueId> operands, ExpandUse) {
  return {b.broadcast(operands[0], b.shape(node.results[0]),
                      node.attrs.get_ints("broadcast_dimensions"))};
}

// ---- sizes that are constants

// From the type of the result, or from the operand if the type does not say.
std::vector<int64_t> gathered_window(GraphBuilder& b, const Node& node,
                                     std::span<const ValueId> operands) {
  const Type& result = b.type(node.results[0]);
  if (!result.has_static_shape()) return constant_ints(b.graph(), node, operands[2]);
  const WindowMap map = gather_map(node);
  std::vector<int64_t> window(b.shape(operands[0]).size(), 1);
  const std::vector<int64_t> dims = map.window_operand_dims(window.size());
  for (size_t w = 0; w < dims.size(); ++w) window[dims[w]] = result.shape[map.window_dims[w]];
  return window;
}

std::vector<ValueId> expand_dynamic_gather(GraphBuilder& b, const Node& node,
                                           std::span<const ValueId> operands, ExpandUse) {
  AttrDict attrs = node.attrs;
  attrs.set("slice_sizes", ints_attr(gathered_window(b, node, operands)));
  return {b.emit("stablehlo.gather", {operands[0], operands[1]}, std::move(attrs))};
}

std::vector<ValueId> expand_dynamic_pad(GraphBuilder& b, const Node& node,
                                        std::span<const ValueId> operands, ExpandUse) {
  auto ints = [&](size_t i) { return ints_attr(constant_ints(b.graph(), node, operands[i])); };
  AttrDict attrs = node.attrs;
  attrs.set("edge_padding_low", ints(2));
  attrs.set("edge_padding_high", ints(3));
  attrs.set("interior_padding", ints(4));
  return {b.emit("stablehlo.pad", {operands[0], operands[1]}, std::move(attrs))};
}

std::vector<ValueId> expand_real_dynamic_slice(GraphBuilder& b, const Node& node,
                                               std::span<const ValueId> operands, ExpandUse) {
  auto ints = [&](size_t i) { return ints_attr(constant_ints(b.graph(), node, operands[i])); };
  AttrDict attrs = node.attrs;
  attrs.set("start_indices", ints(1));
  attrs.set("limit_indices", ints(2));
  attrs.set("strides", ints(3));
  return {b.emit("stablehlo.slice", {operands[0]}, std::move(attrs))};
}

std::vector<ValueId> expand_dynamic_conv(GraphBuilder& b, const Node& node,
                                         std::span<const ValueId> operands, ExpandUse) {
  const std::vector<int64_t> padding = constant_ints(b.graph(), node, operands[2]);
  std::vector<int64_t> low, high;
  for (size_t i = 0; i < padding.size(); i += 2) {
    low.push_back(padding[i]);
    high.push_back(padding[i + 1]);
  }
  AttrDict attrs = node.attrs;
  attrs.set("padding", pairs_attr(low, high));
  return {b.emit("stablehlo.convolution", {operands[0], operands[1]}, std::move(attrs))};
}

}  // namespace

void add_dynamic_shape_expansions(OpRegistry& r) {
  set_expansion(r, "stablehlo.get_dimension_size", expand_dimension_size, kInPrograms);
  set_expansion(r, "stablehlo.dynamic_reshape", expand_dynamic_reshape, kInPrograms);
  set_expansion(r, "stablehlo.dynamic_iota", expand_dynamic_iota, kInPrograms);
  set_expansion(r, "stablehlo.dynamic_broadcast_in_dim", expand_dynamic_broadcast, kInPrograms);
  set_expansion(r, "stablehlo.dynamic_gather", expand_dynamic_gather, kInPrograms | kInDerivatives);
  // A program keeps these: their sizes may be unknown until it runs, and an expansion in a function
  // of its own does not see the constants.
  set_expansion(r, "stablehlo.dynamic_pad", expand_dynamic_pad, kInDerivatives);
  set_expansion(r, "stablehlo.real_dynamic_slice", expand_real_dynamic_slice, kInDerivatives);
  set_expansion(r, "stablehlo.dynamic_conv", expand_dynamic_conv, kInDerivatives);
}

}  // namespace cleave
