#include "cleave/kernels/normalize.h"

#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/rule_util.h"

// Softmax and layer_norm along the last dimension of F32 as ops of their own, computed by oneDNN.
// The functions on tensors record them where a device has whole rows; where rows are cut, where a
// trace may be differentiated or compiled, and for other types, they record the ops that these
// consist of.
namespace cleave {
namespace {

std::vector<Type> infer_rows(const Graph& graph, const Node& node) {
  require(node.operands.size() == 1 || node.operands.size() == 3, node,
          "takes 1 or 3 operands, got {}", node.operands.size());
  const Type& x = tensor_operand(graph, node, 0);
  require(x.dtype == DType::F32 && x.rank() > 0, node, "takes tensors of f32, got {}",
          to_string(x));
  for (size_t i = 1; i < node.operands.size(); ++i)
    require(graph.operand_type(node, i) == Type::tensor(DType::F32, {x.shape.back()}), node,
            "operand {} must be a vector of {} elements, got {}", i, x.shape.back(),
            operand_types_text(graph, node));
  return {Type::tensor(DType::F32, x.shape)};
}

OpShardingRule rows_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool last = d + 1 == shape.size();
    std::vector<int> dims(node.operands.size(), last ? 0 : kNoDim);
    dims[0] = static_cast<int>(d);
    builder.factor(dims, {static_cast<int>(d)}, shape[d],
                   last ? FactorKind::NeedReplication : FactorKind::PassThrough);
  }
  return builder.build();
}

OpCost rows_cost(const Graph& graph, const Node& node, KernelClass kernel) {
  const Type& type = graph.result_type(node);
  const auto bytes = static_cast<double>(type.byte_count());
  OpCost cost{.kernel = kernel};
  cost.flops = 5 * static_cast<double>(num_elements(type.shape));
  cost.bytes_read = bytes;
  cost.bytes_written = bytes;
  return cost;
}

}  // namespace

void register_normalize_ops(OpRegistry& registry) {
  registry.add(
      {.name = "cleave.softmax",
       .traits = kPure,
       .infer = infer_rows,
       .rule = rows_rule,
       .cost = [](const Graph& graph,
                  const Node& node) { return rows_cost(graph, node, KernelClass::Softmax); },
       .eval = [](EvalContext&, const Node&, std::span<const Array> in) -> std::vector<Array> {
         return {softmax(in[0])};
       }});
  registry.add(
      {.name = "cleave.layer_norm",
       .traits = kPure,
       .infer = infer_rows,
       .rule = rows_rule,
       .cost = [](const Graph& graph,
                  const Node& node) { return rows_cost(graph, node, KernelClass::Norm); },
       .eval = [](EvalContext&, const Node& node, std::span<const Array> in) -> std::vector<Array> {
         const double epsilon = node.attrs.get_float("epsilon");
         const bool affine = in.size() == 3;
         return {layer_norm(in[0], affine ? &in[1] : nullptr, affine ? &in[2] : nullptr, epsilon)};
       }});
}

}  // namespace cleave
