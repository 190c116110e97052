#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// Throws UserError unless `precision_config` is empty or names DEFAULT, HIGH or HIGHEST for at most
// two operands, and `algorithm` is one that some hardware has, with the default precision.
void verify_precision(const Graph& graph, const Node& node);

// Whether the program asks for more than the default precision: HIGH, HIGHEST or an algorithm in
// f32.
bool asks_for_precision(const Node& node);

// Throws UserError unless the tolerances of `result_accuracy` are not negative, and 0 if its mode
// is not TOLERANCE.
void verify_result_accuracy(const Graph& graph, const Node& node);

}  // namespace cleave
