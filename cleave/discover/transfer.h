#pragma once

#include <optional>
#include <vector>

#include "cleave/core/placement.h"
#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

namespace cleave {

// What a rule and a partial transfer claim on one mesh axis of w devices: the placements of the
// results for given placements of the operands, or nothing if they claim nothing.
//
//   matmul "m k, k n -> m n":   S(1), S(0) -> P(sum)    P(sum), R -> P(sum)    S(1), R -> nothing
//
// A dimension that is a product of factors is split along its first factor, which w must divide.
std::optional<std::vector<Placement>> transfer(const OpShardingRule& rule,
                                               const PartialTransfer& partial,
                                               const std::vector<Placement>& operands, int w);

// The rule of an op as the partitioner runs it: factors along which a device cannot compute its
// part alone must be whole. Nothing if the op has no rule.
std::optional<OpShardingRule> executed_rule(const Graph& graph, const Node& node);
PartialTransfer partial_of(const Graph& graph, const Node& node);

// Follows one call through the ops of its definition. Returns the placements of the results, or
// nothing if some op's rule does not carry them. Splat constants may have any placement but a
// partial one.
std::optional<std::vector<Placement>> transfer_through(const Graph& definition,
                                                       const std::vector<Placement>& operands,
                                                       int w);

}  // namespace cleave
