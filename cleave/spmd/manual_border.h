#pragma once

#include "cleave/core/sharding.h"
#include "cleave/graph/graph.h"

namespace cleave {

// How an operand or result of an sdy.manual_computation lies at its border: as its sharding says,
// or by the manual axes alone if the free ones do not divide it evenly, since they may cut the
// chunk of a device elsewhere than the whole dimension.
ShardingSpec manual_border(const Node& manual, ShardingSpec spec, const Shape& shape);

}  // namespace cleave
