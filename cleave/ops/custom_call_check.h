#pragma once

#include <span>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

// Of a custom call whose rule or kernel is known here, the number of its operands and results and
// their ranks. Throws a UserError that begins with the op's name; says nothing of other targets.
void verify_custom_call(const Graph& graph, const Node& node);
// The part that holds for every target: layouts, aliases and backend_config fit the call. Called by
// verify_custom_call.
void verify_call_attributes(const Graph& graph, const Node& node);

// The same of the arrays that a kernel is about to take.
void check_call_operands(const Graph& graph, const Node& node, std::span<const Array> operands);

}  // namespace cleave
