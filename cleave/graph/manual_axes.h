#pragma once

#include <map>
#include <set>
#include <string>

#include "cleave/graph/graph.h"

namespace cleave {

// Inside sdy.manual_computation, shapes are already local along its manual axes, so nothing there
// can be sharded along them once more: not by a constraint, not by a manual computation inside,
// not in a function that is called there.
//
//   sdy.manual_computation(%x) ... manual_axes={"x"} (%y: tensor<2x6xf32>) {
//     sdy.sharding_constraint %y <@mesh, [{}, {"x"}]>   // refused: "x" is manual here

using AxisNames = std::set<std::string>;

// By function: the axes that are manual around some call of it.
std::map<std::string, AxisNames> manual_axes_around(const Graph& graph);

// The manual axes of an sdy.manual_computation, added to those around it; `outer` for other nodes.
AxisNames manual_axes_inside(const Node& node, const AxisNames& outer);

// Throws UserError for the first sharding that uses an axis which is manual around it.
void verify_manual_axes(const Graph& graph);

}  // namespace cleave
