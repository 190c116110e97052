#pragma once

#include <string>

#include "cleave/core/shape.h"
#include "cleave/core/sharding.h"

namespace cleave {

// Which device holds what, as text: the last two dimensions as a grid of shards with the devices
// that hold each, one grid for every shard of the dimensions before them. Replicas are joined by
// ",", the parts of a partial by its sign. On the mesh x=2,y=2, 5x4 with [{"x"}, {}],
// unreduced={"y"}:
//
//            [0,4)
//           +-------+
//     [0,3) | 0 + 1 |
//           +-------+
//     [3,5) | 2 + 3 |
//           +-------+
//
// Ranges are the true ones; an empty shard is marked as such.
std::string picture(const ShardingSpec& spec, const Shape& shape);

// One line for every device: what it holds.
//   device 3  [3,5) x [0,4)  2x4
std::string device_table(const ShardingSpec& spec, const Shape& shape);

}  // namespace cleave
