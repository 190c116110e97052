#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/runtime/tensor.h"

// Communication by name. On tensors of the whole program these functions say where a change of
// layout happens; inside `shard_map`, in which a tensor is one device's part, they do what MPI's
// functions do, among the devices that differ along the axes alone.
namespace cleave {

// The pending reduction over the axes, completed (by the operator that is pending); x if nothing is
// pending. In shard_map: the parts combined by `op`.
Tensor all_reduce(const Tensor& x, const SpecEntry& axes, ReduceOp op = ReduceOp::Sum);
// Dimension `dim`, no longer sharded over the axes. In shard_map: the parts joined along it.
Tensor all_gather(const Tensor& x, const SpecEntry& axes, int64_t dim);
// The pending sum over the axes, completed and sharded along `dim` at once.
Tensor reduce_scatter(const Tensor& x, const SpecEntry& axes, int64_t dim);
// The axes move from dimension `from` to `to`. In shard_map: `to` is cut into as many pieces as
// there are devices, and what arrives is joined along `from`.
Tensor all_to_all(const Tensor& x, const SpecEntry& axes, int64_t from, int64_t to);
// Parts move along an axis: the part at coordinate `first` goes to `second`. A device that receives
// none gets zeros. On whole tensors, some dimension must be sharded over the axis alone, evenly.
//   ppermute(x, "x", {{0, 1}, {1, 2}, {2, 0}})       a ring
Tensor ppermute(const Tensor& x, const std::string& axis,
                const std::vector<std::pair<int64_t, int64_t>>& pairs);
// In shard_map: the device's coordinate along the axes, a scalar i32.
Tensor axis_index(const SpecEntry& axes);
// On whole tensors: 0, 1, ..., n-1, one number for each coordinate along an axis, which lies at
// that coordinate.
Tensor axis_index(const Mesh& mesh, const std::string& axis);

using ManualFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
// Runs a function on every device's part of the arguments. Sharded dimensions divide evenly.
// Results are put together as the out specs say.
//
// `shard_map` (cleave/transforms) does the same for functions over trees of tensors.
std::vector<Tensor> manual_computation(const ManualFunction& function, const Mesh& mesh,
                                       const std::vector<Tensor>& args,
                                       const std::vector<PartitionSpec>& in_specs,
                                       const std::vector<PartitionSpec>& out_specs);

}  // namespace cleave
