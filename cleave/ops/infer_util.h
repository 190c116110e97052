#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/graph/graph.h"

// What type inference of most ops needs. A size that is kDynamicSize is compatible with every size.
namespace cleave {

// Throws a UserError that begins with the op's name.
//   fail(node, "permutation {} is not one of rank {}", ...)
//   -> "stablehlo.transpose: permutation 0x0 is not one of rank 2"
template <typename... Args>
[[noreturn]] void fail(const Node& node, fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(node.name() + ": " + fmt::format(format, std::forward<Args>(args)...));
}

// The same, unless the condition holds. Arguments are made in any case: in checks of common ops,
// text is made by a `fail` behind an `if`.
template <typename... Args>
void require(bool condition, const Node& node, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(node, format, std::forward<Args>(args)...);
}

void require_operands(const Node& node, size_t count);
void require_operands(const Node& node, size_t at_least, size_t at_most);
// Operand i, which must exist and be a ranked or unranked tensor.
const Type& tensor_operand(const Graph& graph, const Node& node, size_t i);
// Result i as the node declares it: for ops whose result type can't be derived, such as reshape.
const Type& declared_result(const Graph& graph, const Node& node, size_t i = 0);
std::string operand_types_text(const Graph& graph,
                               const Node& node);           // "tensor<2xf32>, tensor<i32>"
std::string ints_text(const std::vector<int64_t>& values);  // "[1, 2]"

inline bool is_dynamic(int64_t size) { return size == kDynamicSize; }
inline bool compatible(int64_t a, int64_t b) { return a == b || is_dynamic(a) || is_dynamic(b); }
bool compatible(const Shape& a, const Shape& b);  // same rank, sizes equal or dynamic
bool compatible(const Type& a,
                const Type& b);  // also the same dtype; for tuples, element by element
// The more static of two compatible shapes: {2, ?} and {?, 3} -> {2, 3}.
Shape merge(const Shape& a, const Shape& b);
// The common type of all operands, with the most static shape; throws if they differ in dtype or
// shape.
Type merged_operand_type(const Graph& graph, const Node& node);

// Throws unless values are distinct and in [0, rank).
void require_distinct_dims(const Node& node, const char* what, const std::vector<int64_t>& dims,
                           size_t rank);

// InferFns for ops whose results have the types of the operands.
std::vector<Type> infer_same_as_operands(const Graph& graph, const Node& node);  // one result
std::vector<Type> infer_identity(const Graph& graph, const Node& node);  // result i as operand i
std::vector<Type> infer_declared(const Graph& graph,
                                 const Node& node);  // whatever the node declares

}  // namespace cleave
