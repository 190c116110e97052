#pragma once

#include <optional>

#include "cleave/core/sharding.h"
#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"

namespace cleave {

// Passes on modules with shardings on every value, under the names that Shardy gives them.

// Inserts sdy.reshard and sdy.all_reduce so that every op's operands and results fit its rule, the
// operands of data-flow ops and calls fit what they flow into, and returned values fit the
// function's results. Without `full`, this is done only if an op would otherwise lose: matmuls
// whose result is resharded more cheaply than an operand, concatenates of mixed shardings, calls,
// and what partial axes demand.
void insert_explicit_reshards(Graph& graph, bool full);

// Replaces every sdy.reshard by the cheapest collectives under the profile. Reshards between a mesh
// and a single device, and between meshes whose axes differ, stay; redundant ones stay too if the
// caller asks for that.
void convert_reshards_to_collectives(Graph& graph, const MachineProfile& profile,
                                     bool keep_redundant);

// The sharding of a value; of an argument of a loop's or branch's region, that of the edge into it.
std::optional<ShardingSpec> flowing_sharding(const Graph& graph, ValueId value);
// The value before all propagation barriers.
ValueId through_barriers(const Graph& graph, ValueId value);

}  // namespace cleave
