#include "cleave/ops/reduce/reducer.h"

#include "cleave/ops/identity.h"

namespace cleave {
namespace {

struct Reduction {
  std::string_view op;
  ReduceOp reduction;
};
constexpr Reduction kReductions[] = {
    {"stablehlo.add", ReduceOp::Sum},     {"stablehlo.multiply", ReduceOp::Prod},
    {"stablehlo.maximum", ReduceOp::Max}, {"stablehlo.minimum", ReduceOp::Min},
    {"stablehlo.and", ReduceOp::And},     {"stablehlo.or", ReduceOp::Or},
};

std::optional<ReduceOp> reducer_of(const Node& node, DType dtype, bool logical_only) {
  const std::optional<ReduceOp> op = reduce_op_of(node.name());
  const bool is_logical = op == ReduceOp::And || op == ReduceOp::Or;
  return is_logical && logical_only && dtype != DType::Bool ? std::nullopt : op;
}

}  // namespace

std::optional<ReduceOp> reduce_op_of(std::string_view op) {
  for (const Reduction& each : kReductions)
    if (each.op == op) return each.reduction;
  return std::nullopt;
}

std::string_view op_of(ReduceOp reduction) {
  for (const Reduction& each : kReductions)
    if (each.reduction == reduction) return each.op;
  return op_of(ReduceOp::Sum);
}

std::optional<ReduceOp> common_reducer(const Graph& graph, RegionId id, bool logical_only) {
  const Region& region = graph.region(id);
  if (region.nodes.empty()) return std::nullopt;
  const Node& terminator = graph.node(region.nodes.back());
  const size_t n = terminator.operands.size();
  if (n == 0 || region.args.size() != 2 * n) return std::nullopt;
  std::optional<ReduceOp> common;
  for (size_t i = 0; i < n; ++i) {
    const Value& value = graph.value(behind_identities(graph, terminator.operands[i]));
    if (!value.producer.valid()) return std::nullopt;
    const Node& node = graph.node(value.producer);
    if (node.operands.size() != 2 || node.parent != id) return std::nullopt;
    const ValueId old_value = region.args[i], new_value = region.args[i + n];
    const ValueId left = behind_identities(graph, node.operands[0]);
    const ValueId right = behind_identities(graph, node.operands[1]);
    const bool fits =
        (left == old_value && right == new_value) || (left == new_value && right == old_value);
    const std::optional<ReduceOp> op = reducer_of(node, value.type.dtype, logical_only);
    if (!fits || !op || (common && *common != *op)) return std::nullopt;
    common = op;
  }
  return common;
}

bool returns_second_half(const Graph& graph, RegionId id) {
  const Region& region = graph.region(id);
  if (region.nodes.empty()) return false;
  const Node& terminator = graph.node(region.nodes.back());
  const size_t n = terminator.operands.size();
  if (region.args.size() != 2 * n) return false;
  for (size_t i = 0; i < n; ++i)
    if (behind_identities(graph, terminator.operands[i]) != region.args[i + n]) return false;
  return true;
}

}  // namespace cleave
