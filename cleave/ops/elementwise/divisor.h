#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// An attribute of stablehlo.divide: the code that wrote it knows that no element of the divisor is
// zero.
inline constexpr const char* kNonzeroDivisor = "cleave.nonzero";

// Whether no element of the divisor is zero: it is a constant (maybe broadcast), or the attribute
// says so. Only then may a pending sum be divided part by part: the parts 3 and -1 have the sum 2,
// and 2 / 0 is inf, but 3 / 0 + -1 / 0 is NaN.
bool divisor_is_nonzero(const Graph& graph, const Node& divide);

}  // namespace cleave
