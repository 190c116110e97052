#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

struct VerifyOptions {
  bool types = true;      // the declared types of results are those that the ops infer
  bool shardings = true;  // sharding attributes fit the shapes of their values
};

// Throws UserError for the first thing that does not hold, with the op, its operands' and results'
// types:
//
// - the tables hang together (verify_tables.h)
// - every operand is defined before its use, in the same region or in one around it (but not around
//   sdy.manual_computation and sdy.named_computation, which see only their own arguments)
// - every region ends with a terminator, and no op before its end is one
// - a function's body has its arguments, and returns its results
// - a call names a function and has its signature
// - declared and inferred types agree (a dynamic dimension agrees with every size), and the op's
// own check
// - shardings, in_shardings, out_shardings and sharding rules fit the ranks and numbers of their
// values
// - inside sdy.manual_computation, no sharding uses its manual axes (manual_axes.h)
void verify_graph(const Graph& graph, const VerifyOptions& options = {});

// Whether an operand or result is a tensor<*x...>: of its dimensions nothing can be said.
bool has_unranked(const Graph& graph, const Node& node);

// Whether a value declared with one type may have been inferred as the other: equal up to dynamic
// dimensions and encodings.
bool compatible_types(const Type& a, const Type& b);

}  // namespace cleave
