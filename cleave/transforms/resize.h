#pragma once

#include <span>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// A traced function for arguments of other sizes, without running what was traced.
//
// The rules of the ops say which dimensions are one index ("b s (h d) -> b s h d"), so a new size
// goes from an argument to everything that has that index, forwards and backwards: to a reshape,
// to zeros that are broadcast to that size, to the iota of a mask. Sizes that ops compute (the sum
// of a concatenation, the windows of a convolution) are inferred anew.
//
//   trace of softmax(x w) with x: 5x3      x: 8x3   fine, all 5s that come from x become 8
//                                          x: 8x4   UserError: dot_general: 4 and 3 (w) are one
//
// What the function computed from a size while it was traced is a number now. Such a number in an
// attribute (slice [1:5] of a dimension of 5), a constant with 5 values, a captured tensor, or a
// divisor that is the number of elements of a sum is an error: UserError that names the op and the
// number. The counts of `mean`, `var` and what is made of them are marked with the sizes that they
// come from (kSizes), and follow.
//
// `types` are those of all arguments of functions[0]; `names` are the names of the first, which may
// have other sizes. The others are captures, and stay.
Graph with_argument_types(const Graph& graph, std::span<const Type> types,
                          const std::vector<std::string>& names);

// A dimension of an argument of functions[0].
struct ArgumentSize {
  size_t argument = 0, dim = 0;
};
// The sizes of the first `count` arguments: those in one list are one index, and change together.
std::vector<std::vector<ArgumentSize>> linked_sizes(const Graph& graph, size_t count);

}  // namespace cleave
