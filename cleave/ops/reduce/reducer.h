#pragma once

#include <optional>
#include <string_view>

#include "cleave/core/sharding.h"
#include "cleave/graph/graph.h"

namespace cleave {

// The reduction that an op makes of two elements, and the op of a reduction:
//   "stablehlo.add" -> Sum; "stablehlo.sine" -> nothing; Max -> "stablehlo.maximum"
std::optional<ReduceOp> reduce_op_of(std::string_view op);
std::string_view op_of(ReduceOp reduction);  // an average is a sum, divided later

// What a region of 2n scalar arguments (n accumulated values, then n new ones) does if it is one of
// the operators that commute and associate, the same for all n, in either order of its operands:
//   { ^bb0(%a, %b): %c = stablehlo.add %a, %b; stablehlo.return %c }  ->  Sum
// And and Or count for i1 alone if `logical_only` (as in Shardy), and for all integers otherwise.
std::optional<ReduceOp> common_reducer(const Graph& graph, RegionId region,
                                       bool logical_only = true);

// Whether the region returns its new values as they are: the body of a scatter that overwrites.
bool returns_second_half(const Graph& graph, RegionId region);

}  // namespace cleave
