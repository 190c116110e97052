#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Where the sharding of a value is written: on an argument or result of a function as an attribute
// of it, on most ops as `sdy.sharding` with one spec per result, and on the ops of the sdy dialect
// in an attribute of their own.
inline constexpr std::string_view kShardingAttr = "sdy.sharding";
inline constexpr std::string_view kShardingRuleAttr = "sdy.sharding_rule";

// The attribute of an sdy op that holds the sharding of its single result ("sharding" of a
// constraint, "out_sharding" of a collective); empty for ops that use sdy.sharding.
std::string_view own_sharding_attr(const Node& node);

// The function whose body is `region`, or -1.
int function_of(const Graph& graph, RegionId region);
// @main, or the only function; -1 if there is neither.
int main_function(const Graph& graph);

const ShardingSpec* sharding_in(
    const AttrDict& attrs);  // `sdy.sharding` of an argument; null: none
std::optional<ShardingSpec> get_sharding(const Graph& graph, ValueId value);
// If other results of the same op have none yet, they become fully open.
void set_sharding(Graph& graph, ValueId value, const ShardingSpec& spec);

// The specs of `in_shardings`, `out_shardings` or `sdy.sharding`; empty if absent.
std::vector<ShardingSpec> get_shardings(const Node& node, std::string_view attr);
void set_shardings(Node& node, std::string_view attr, std::vector<ShardingSpec> specs);

// Calls `change` for every sharding in the module, in the order of the text, and stores what it
// returns.
using ChangeSharding = std::function<ShardingSpec(const ShardingSpec&)>;
void transform_shardings(Graph& graph, const ChangeSharding& change);

// Manual computations. The manual axes come first in every dimension.
std::vector<bool> manual_axes_of(const Node& node, const Mesh& mesh);  // per mesh axis
// Without the manual axes:  [{"m", "x"}, {?}] -> [{"x"}, {?}]
ShardingSpec erase_manual_axes(const ShardingSpec& spec, const Node& manual_computation);
// The manual axes of `outer` followed by the axes of `inner`; open or closed as `inner`.
ShardingSpec with_manual_axes(const ShardingSpec& outer, const ShardingSpec& inner,
                              const Node& manual_computation);

}  // namespace cleave
