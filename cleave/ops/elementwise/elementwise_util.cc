#include "cleave/ops/elementwise/elementwise_util.h"

#include <string>

#include "cleave/core/kernel_classes.h"
#include "cleave/ops/rule_util.h"

namespace cleave {

bool in_domain(unsigned domain, DType dtype) {
  if (dtype == DType::Other) return true;
  if (dtype == DType::Bool) return domain & kBools;
  if (is_complex(dtype)) return domain & kComplexes;
  if (is_float(dtype)) return domain & kFloats;
  return domain & kInts;
}

void require_domain(const Graph& graph, const Node& node, unsigned domain) {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const DType dtype = tensor_operand(graph, node, i).dtype;
    if (in_domain(domain, dtype)) continue;
    std::string allowed;
    auto allow = [&](Domain part, const char* text) {
      if (domain & part) allowed += (allowed.empty() ? "" : ", ") + std::string(text);
    };
    allow(kInts, "integer");
    allow(kBools, "i1");
    allow(kFloats, "float");
    allow(kComplexes, "complex");
    fail(node, "is defined on {} elements, got {}", allowed, operand_types_text(graph, node));
  }
}

OpCost function_cost(const Graph& graph, const Node& node) {
  constexpr double kFlopsPerFunction = 10;
  OpCost cost{.kernel = kFunctionClass};
  for (ValueId id : node.operands)
    cost.bytes_read += static_cast<double>(graph.type(id).byte_count());
  for (ValueId id : node.results) {
    const Type& type = graph.type(id);
    cost.bytes_written += static_cast<double>(type.byte_count());
    if (type.has_static_shape())
      cost.flops += kFlopsPerFunction * static_cast<double>(num_elements(type.shape));
  }
  return cost;
}

Comparison comparison_of(const Node& node) {
  const std::string_view direction = node.attrs.get_string("comparison_direction");
  const bool total =
      node.attrs.has("compare_type") && node.attrs.get_string("compare_type") == "TOTALORDER";
  if (direction == "EQ") return {CompareOp::Eq, total};
  if (direction == "NE") return {CompareOp::Ne, total};
  if (direction == "GE") return {CompareOp::Ge, total};
  if (direction == "GT") return {CompareOp::Gt, total};
  if (direction == "LE") return {CompareOp::Le, total};
  if (direction == "LT") return {CompareOp::Lt, total};
  fail(node, "comparison_direction must be EQ, NE, GE, GT, LE or LT, got {}", direction);
}

PartialTransfer increasing_partial(const Graph& graph, const Node& node) {
  if (!is_float(graph.operand_type(node, 0).dtype)) return {};
  return rows_of_operand(node, 0, {ReduceOp::Max, ReduceOp::Min});
}

PartialTransfer increasing_above_partial(const Graph& graph, const Node& node) {
  if (!is_float(graph.operand_type(node, 0).dtype)) return {};
  return rows_of_operand(node, 0, {ReduceOp::Min});
}

PartialTransfer decreasing_partial(const Graph& graph, const Node& node) {
  if (!is_float(graph.operand_type(node, 0).dtype)) return {};
  return {{ReduceOp::Max, {true}, ReduceOp::Min}, {ReduceOp::Min, {true}, ReduceOp::Max}};
}

PartialTransfer negate_partial(const Graph& graph, const Node& node) {
  PartialTransfer rows = linear_partial(graph, node);
  for (PartialRow& row : decreasing_partial(graph, node)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace cleave
