#pragma once

#include <functional>

#include "cleave/reshard/reshard.h"

namespace cleave {

// Reshards from a single device to a mesh, from a mesh to a single device, and between two single
// devices (`from` or `to` is on a maximal mesh). `between` plans the part that runs on the mesh.
//
//   device 0 -> [{"x"}, {}] on x=2,y=2:   scatter -> [{"x", "y"}, {}], all_gather -> [{"x"}, {}]
//   [{"x"}, {}] unreduced={"y"} -> device 0:   all_reduce -> [{"x"}, {}], gather -> []
//
// The device sends or receives every element once where that is cheaper than many times; the
// cheapest of the ways through one layout of the mesh is taken. Throws UserError if none stays
// within the memory.
ReshardPlan plan_single_device(
    const ShardingSpec& from, const ShardingSpec& to, const Shape& shape, DType dtype,
    const MachineProfile& profile, const ReshardOptions& options,
    const std::function<ReshardPlan(const ShardingSpec&, const ShardingSpec&)>& between);

}  // namespace cleave
