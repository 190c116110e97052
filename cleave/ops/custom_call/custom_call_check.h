#pragma once

#include <span>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

// Checks the number of operands and results and their ranks for a custom call whose rule or kernel
// is known here. Throws a UserError that begins with the op's name; other targets are not checked.
void verify_custom_call(const Graph& graph, const Node& node);
// The part that holds for every target: layouts, aliases and backend_config fit the call. Called by
// verify_custom_call.
void verify_call_attributes(const Graph& graph, const Node& node);

// The function that orders the elements of @ApproxTopK or @PartialReduce; null, for the greatest
// first, if called_computations names none. Throws a UserError if it names several, or one of
// another type.
const Function* top_k_comparator(const Graph& graph, const Node& node);

// Checks the number and shapes of the arrays that a kernel is about to take.
void check_call_operands(const Graph& graph, const Node& node, std::span<const Array> operands);

// @shape_assertion, which JAX puts in front of functions exported for sizes that are not known yet:
// throws a UserError with the call's message, {0} and so on being its further operands, unless its
// first operand holds.
void check_shape_assertion(const Node& node, std::span<const Array> operands);

}  // namespace cleave
