#pragma once

#include <set>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// The functions that an op's attributes name: callee, decomposition, called_computations.
std::vector<std::string> functions_named_by(const Node& node);

// Functions that are scalar code: those that the bodies of reductions and the like call, those that
// an op lists (the comparator in called_computations = [@lt]), and what all of them call in turn.
// Ops run them on elements, and some look at what they are made of; passes leave them as they are.
std::set<std::string> scalar_functions(const Graph& graph);

}  // namespace cleave
