#include "cleave/ops/elementwise/family.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"

// Conversions to and from quantized types. Their element types are kept as text (DType::Other):
// shapes and shardings are known, and no kernel computes with them.
namespace cleave {
namespace {

bool is_quantized(const Type& type) { return type.dtype == DType::Other; }

std::vector<Type> infer_same_shape(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& result = declared_result(graph, node);
  require(result.is_tensor() && compatible(operand.shape, result.shape), node,
          "gives {} from {}, of another shape", to_string(result), to_string(operand));
  return {result};
}

std::vector<Type> infer_quantize(const Graph& graph, const Node& node) {
  std::vector<Type> types = infer_same_shape(graph, node);
  require(is_quantized(types[0]), node, "the result {} is not quantized", to_string(types[0]));
  return types;
}

std::vector<Type> infer_dequantize(const Graph& graph, const Node& node) {
  std::vector<Type> types = infer_same_shape(graph, node);
  require(is_quantized(graph.operand_type(node, 0)), node, "the operand {} is not quantized",
          to_string(graph.operand_type(node, 0)));
  require(is_float(types[0].dtype), node, "the result {} is no float", to_string(types[0]));
  return types;
}

}  // namespace

void register_quantized_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.uniform_quantize",
                .traits = kElementwise | kPure,
                .infer = infer_quantize,
                .rule = pointwise_rule});
  registry.add({.name = "stablehlo.uniform_dequantize",
                .traits = kElementwise | kPure,
                .infer = infer_dequantize,
                .rule = pointwise_rule});
}

}  // namespace cleave
