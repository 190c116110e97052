#pragma once

#include <vector>

#include "cleave/core/axis.h"
#include "cleave/core/mesh.h"
#include "cleave/graph/attribute.h"

namespace cleave {

// Devices that differ along the axes alone, each group in the order of their coordinates.
//   x=2,y=2 along {"x"}: {0, 2}, {1, 3}     along {"y", "x"}: {0, 2, 1, 3}
std::vector<std::vector<int64_t>> groups_along(const Mesh& mesh, const AxisList& axes);

// Rows of equal length as a dense matrix of 64-bit integers: replica_groups, source_target_pairs.
Attribute table_attr(const std::vector<std::vector<int64_t>>& rows);
// #stablehlo.channel_handle<handle = N, type = 1>: devices talk to devices.
Attribute channel_attr(int64_t handle);

}  // namespace cleave
