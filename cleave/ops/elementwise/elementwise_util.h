#pragma once

#include <string_view>
#include <vector>

#include "cleave/graph/op_def.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/dot/precision.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"

// What the StableHLO and CHLO families of elementwise ops share.
namespace cleave {

// Element types that an op is defined on.
enum Domain : unsigned { kInts = 1, kBools = 2, kFloats = 4, kComplexes = 8 };
bool in_domain(unsigned domain, DType dtype);
// Throws a UserError that names the operand types.
void require_domain(const Graph& graph, const Node& node, unsigned domain);

// One type for all operands and the result.
template <unsigned domain, size_t operands>
std::vector<Type> infer_elementwise(const Graph& graph, const Node& node) {
  require_operands(node, operands);
  require_domain(graph, node, domain);
  return {merged_operand_type(graph, node)};
}
// The same shape, and the dtype that `result` makes of the operand's.
template <unsigned domain, size_t operands, DType (*result)(DType)>
std::vector<Type> infer_elementwise_to(const Graph& graph, const Node& node) {
  Type type = infer_elementwise<domain, operands>(graph, node)[0];
  type.dtype = result(type.dtype);
  return {type};
}
inline DType to_bool(DType) { return DType::Bool; }

// The first operand whose memory the result may take, or null.
inline const Array* reusable(const EvalContext& context, std::span<const Array> in) {
  for (const Array& operand : in)
    if (context.may_overwrite(operand)) return &operand;
  return nullptr;
}
template <UnaryOp op>
std::vector<Array> eval_unary(EvalContext& context, const Node&, std::span<const Array> in) {
  return {unary(op, in[0], reusable(context, in))};
}
template <BinaryOp op>
std::vector<Array> eval_binary(EvalContext& context, const Node&, std::span<const Array> in) {
  return {binary(op, in[0], in[1], reusable(context, in))};
}

template <UnaryOp op>
ElementLoop loop_unary(const Graph& graph, const Node& node) {
  return element_loop(unary_loop(op, graph.operand_type(node, 0).dtype));
}
template <BinaryOp op>
ElementLoop loop_binary(const Graph& graph, const Node& node) {
  return element_loop(binary_loop(op, graph.operand_type(node, 0).dtype));
}

// exp, sin, ... take more than one operation.
OpCost function_cost(const Graph& graph, const Node& node);

// The direction of a compare and whether it is by totalOrder, from the attributes.
struct Comparison {
  CompareOp op;
  bool total_order;
};
Comparison comparison_of(const Node& node);

// Partial transfer of functions of one real variable that never fall or never rise. If one is not
// defined everywhere, the NaN of a part would win over the maximum of the others, so log carries
// Min only.
PartialTransfer increasing_partial(const Graph& graph, const Node& node);
PartialTransfer increasing_above_partial(const Graph& graph,
                                         const Node& node);                // log, sqrt: Min only
PartialTransfer decreasing_partial(const Graph& graph, const Node& node);  // erfc
PartialTransfer negate_partial(const Graph& graph, const Node& node);

// Definitions of unary and binary ops on one element type.
inline constexpr uint32_t kElementwiseTraits = kElementwise | kPure;
template <UnaryOp op, unsigned domain>
void add_unary(OpRegistry& registry, const char* name, PartialFn partial = nullptr,
               uint32_t more_traits = 0, CostFn cost = nullptr) {
  registry.add({.name = name,
                .traits = kElementwiseTraits | more_traits,
                .infer = infer_elementwise<domain, 1>,
                .rule = pointwise_rule,
                .partial = partial,
                .cost = cost,
                .eval = eval_unary<op>,
                .loop = loop_unary<op>,
                .in_place = InPlace::AnyOperand});
}
template <BinaryOp op, unsigned domain>
void add_binary(OpRegistry& registry, const char* name, PartialFn partial = nullptr,
                uint32_t more_traits = 0, CostFn cost = nullptr) {
  registry.add({.name = name,
                .traits = kElementwiseTraits | more_traits,
                .infer = infer_elementwise<domain, 2>,
                .rule = pointwise_rule,
                .partial = partial,
                .cost = cost,
                .eval = eval_binary<op>,
                .loop = loop_binary<op>,
                .in_place = InPlace::AnyOperand});
}
template <UnaryOp op, unsigned domain>
void add_function(OpRegistry& registry, const char* name, PartialFn partial = nullptr,
                  uint32_t more_traits = 0) {
  add_unary<op, domain>(registry, name, partial, more_traits, function_cost);
  registry.extend(name, [](OpDef& def) { def.verify = verify_result_accuracy; });
}

// chlo.broadcast_add, ...: ops that bring their operands to one shape first.
inline constexpr std::string_view kBroadcastPrefix = "chlo.broadcast_";
inline constexpr const char* kBroadcastingOps[] = {"add",
                                                   "atan2",
                                                   "divide",
                                                   "maximum",
                                                   "minimum",
                                                   "multiply",
                                                   "next_after",
                                                   "polygamma",
                                                   "power",
                                                   "remainder",
                                                   "shift_left",
                                                   "shift_right_arithmetic",
                                                   "shift_right_logical",
                                                   "subtract",
                                                   "zeta",
                                                   "and",
                                                   "or",
                                                   "xor",
                                                   "complex",
                                                   "compare",
                                                   "select"};

}  // namespace cleave
