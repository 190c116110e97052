#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// A function that takes a GPU dozens of instructions for an element: tanh, erf, sine, power. A
// compiler rather keeps its result than compute it twice; exp, logistic and rsqrt take a few.
bool is_long_function(const Node& node);

}  // namespace cleave
