#pragma once

#include <memory>
#include <optional>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

namespace cleave {

// Which rule an op has, asked for two reasons that need not have one answer:
//
//   a custom call with sdy.sharding_rule   propagates as the text says; runs as its op allows
//   concatenate, conservative              propagates along all dimensions but its own; runs
//                                          along all
//
// How shardings spread through the node: its own sdy.sharding_rule, or its op's rule; null if there
// is none. If `conservative`, factors along which elements move between shards do not propagate.
std::shared_ptr<const OpShardingRule> propagation_rule(const Graph& graph, const Node& node,
                                                       bool conservative = false);

// Along which factors the node may run in parts (partition_op): the rule of its op, which for a
// custom call may be that of its attribute `sdy.sharding_rule`. Nothing if the op has none, or if a
// shape is not known.
std::optional<OpShardingRule> execution_rule(const Graph& graph, const Node& node);

}  // namespace cleave
