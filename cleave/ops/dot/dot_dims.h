#pragma once

#include <optional>
#include <string_view>

#include "cleave/graph/graph.h"
#include "cleave/kernels/dot.h"

namespace cleave {

// The only functions that know how the dimension numbers of products are spelt.
inline constexpr std::string_view kDotDims = "dot_dimension_numbers";
inline constexpr std::string_view kRaggedDotDims = "ragged_dot_dimension_numbers";

// Of a stablehlo.dot_general; throws UserError if they are missing.
DotDims dot_dims(const Node& node);
// Which dimensions a stablehlo.dot_general or stablehlo.dot pairs; nothing for other ops.
std::optional<DotDims> dot_dims_of(const Graph& graph, const Node& node);
bool is_dot(const Node& node);  // whether it is one of those
// #stablehlo.dot<...>; lists that are empty are left out.
Attribute dot_dims_attr(const DotDims& dims);
AttrDict dot_attrs(const DotDims& dims);  // that attribute under its name

// Of a chlo.ragged_dot: rows of lhs along `ragged` belong to groups, each with its matrix of rhs
// along `group`.
struct RaggedDotDims {
  DotDims dot;
  std::vector<int64_t> ragged;  // of lhs
  std::vector<int64_t> group;   // of rhs
};
RaggedDotDims ragged_dot_dims(const Node& node);
Attribute ragged_dot_dims_attr(const RaggedDotDims& dims);

}  // namespace cleave
