#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/plan/names.h"

namespace cleave::plan {

// A layout that the module itself asks for: `sdy.sharding` on an argument, a result or an op, or an
// `sdy.sharding_constraint`. To the planner they are pins.
struct Annotation {
  // Of the value; "return#0" for the first result of the function.
  std::string name;
  ShardingSpec spec;
  Type type;
  // annotation [{"x"}, {}] of w1 (argument 1 of @main)
  // annotation [{}, {}] of dot_general.3 (at "step.py":12:4)
  std::string text;
};

// Those on a mesh with the axes of `mesh` that fix anything, in the order of the program. `flat` is
// flat (names.h).
std::vector<Annotation> annotations_of(const Graph& flat, const Names& names,
                                       const std::string& entry, const Mesh& mesh);

// The name under which annotations and pins speak of result i of the function: "return#0".
std::string result_name(size_t index);

}  // namespace cleave::plan
