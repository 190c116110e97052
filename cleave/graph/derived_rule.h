#pragma once

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

namespace cleave {

// The rule of a whole body, from the rules of its ops: what a composite tells propagation.
// Dimensions that correspond through the body share factors; if two ops cut a dimension at
// different places, the factors are cut at both.
//
//   softmax along j (max, subtract, exp, sum, divide):
//     ([i, j])->([i, j]) {i=8, j=4} need_replication={j}      reduced inside, so it can't stay cut
//   row sums of x * y:
//     ([i, j], [i, j])->([i]) {i=8, j=4} reduction={j}
//   the norm of rows, sqrt(sum(x * x)):
//     ([i, j])->([i]) {i=8, j=4} need_replication={j}         sqrt does not carry a pending sum
//
// An op without a rule inside needs its operands whole.
OpShardingRule derive_rule(const Graph& graph, RegionId body);

}  // namespace cleave
