#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// Whether an op gives its only operand back as it is: a sharding constraint, a reshard, a barrier.
bool is_identity_op(const Node& node);

// The value that the ops above gave back:
//   %2 = add %a, %b; %3 = sdy.sharding_constraint %2     behind_identities(%3) -> %2
// JAX puts such constraints into the scalar code of reductions inside a partly manual shard_map.
ValueId behind_identities(const Graph& graph, ValueId value);

// Removes such ops from a region and those inside it.
void remove_identities(Graph& graph, RegionId region);

}  // namespace cleave
