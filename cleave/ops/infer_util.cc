#include "cleave/ops/infer_util.h"

#include <fmt/format.h>

namespace cleave {

void require_operands(const Node& node, size_t count) {
  require(node.operands.size() == count, node, "takes {} operand(s), got {}", count,
          node.operands.size());
}

void require_operands(const Node& node, size_t at_least, size_t at_most) {
  require(node.operands.size() >= at_least && node.operands.size() <= at_most, node,
          "takes {} to {} operands, got {}", at_least, at_most, node.operands.size());
}

const Type& tensor_operand(const Graph& graph, const Node& node, size_t i) {
  require(i < node.operands.size(), node, "operand {} is missing", i);
  const Type& type = graph.operand_type(node, i);
  if (!type.is_tensor()) fail(node, "operand {} must be a tensor, got {}", i, to_string(type));
  return type;
}

const Type& declared_result(const Graph& graph, const Node& node, size_t i) {
  require(i < node.results.size(), node, "the type of result {} must be given", i);
  const Type& type = graph.result_type(node, i);
  if (!type.is_tensor()) fail(node, "result {} must be a tensor, got {}", i, to_string(type));
  return type;
}

std::string operand_types_text(const Graph& graph, const Node& node) {
  std::string text;
  for (ValueId id : node.operands) {
    if (!text.empty()) text += ", ";
    text += to_string(graph.type(id));
  }
  return text;
}

std::string ints_text(const std::vector<int64_t>& values) {
  constexpr size_t kMostShown = 64;
  if (values.size() > kMostShown)
    return fmt::format("[{}, ... {} in all]",
                       fmt::join(values.begin(), values.begin() + kMostShown, ", "), values.size());
  return fmt::format("[{}]", fmt::join(values, ", "));
}

bool compatible(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d)
    if (!compatible(a[d], b[d])) return false;
  return true;
}

bool compatible(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Type::Kind::Tuple) {
    if (a.elements.size() != b.elements.size()) return false;
    for (size_t i = 0; i < a.elements.size(); ++i)
      if (!compatible(a.elements[i], b.elements[i])) return false;
    return true;
  }
  if (!a.is_tensor()) return a == b;
  if (a.dtype != b.dtype || (a.dtype == DType::Other && a.text != b.text)) return false;
  return a.unranked || b.unranked || compatible(a.shape, b.shape);
}

Shape merge(const Shape& a, const Shape& b) {
  Shape merged = a;
  for (size_t d = 0; d < merged.size(); ++d)
    if (is_dynamic(merged[d])) merged[d] = b[d];
  return merged;
}

Type merged_operand_type(const Graph& graph, const Node& node) {
  Type merged = tensor_operand(graph, node, 0);
  for (size_t i = 1; i < node.operands.size(); ++i) {
    const Type& type = tensor_operand(graph, node, i);
    if (!compatible(merged, type))
      fail(node, "operands must have one type, got {}", operand_types_text(graph, node));
    if (merged.unranked) {
      merged = type;
    } else if (!type.unranked) {
      merged.shape = merge(merged.shape, type.shape);
    }
  }
  return merged;
}

void require_distinct_dims(const Node& node, const char* what, const std::vector<int64_t>& dims,
                           size_t rank) {
  std::vector<bool> seen(rank);
  for (int64_t d : dims) {
    if (d < 0 || d >= static_cast<int64_t>(rank))
      fail(node, "{} {} must lie in [0, {})", what, ints_text(dims), rank);
    if (seen[d]) fail(node, "{} {} must be distinct", what, ints_text(dims));
    seen[d] = true;
  }
}

std::vector<Type> infer_same_as_operands(const Graph& graph, const Node& node) {
  return {merged_operand_type(graph, node)};
}

std::vector<Type> infer_identity(const Graph& graph, const Node& node) {
  std::vector<Type> types;
  for (ValueId id : node.operands) types.push_back(graph.type(id));
  return types;
}

std::vector<Type> infer_declared(const Graph& graph, const Node& node) {
  std::vector<Type> types;
  for (ValueId id : node.results) types.push_back(graph.type(id));
  return types;
}

}  // namespace cleave
