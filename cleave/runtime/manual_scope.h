#pragma once

#include <string_view>
#include <vector>

#include "cleave/runtime/tensor.h"

namespace cleave {

// The body of a shard_map that is being traced on this thread: its mesh, and the position of the
// device on it, tensor<1xi32>. Null outside.
struct ManualScope {
  MeshPtr mesh;
  Tensor position;
  const ManualScope* outer = nullptr;

  ManualScope(MeshPtr mesh, Tensor position);
  ~ManualScope();
  ManualScope(const ManualScope&) = delete;
  ManualScope& operator=(const ManualScope&) = delete;
};
const ManualScope* manual_scope();

// Collectives of the parts of one device: StableHLO's ops, with groups of devices along the axes.
Tensor manual_all_reduce(const Tensor& x, const AxisList& axes, ReduceOp op);
Tensor manual_all_gather(const Tensor& x, const AxisList& axes, int64_t dim);
Tensor manual_reduce_scatter(const Tensor& x, const AxisList& axes, int64_t dim);
Tensor manual_all_to_all(const Tensor& x, const AxisList& axes, int64_t from, int64_t to);
Tensor manual_permute(const Tensor& x, const AxisList& axes,
                      const std::vector<std::pair<int64_t, int64_t>>& pairs);
// The op that gives it says along which axes devices differ: cleave.along = array<i64: 1>.
inline constexpr std::string_view kAlongAxes = "cleave.along";
Tensor manual_axis_index(const AxisList& axes);

}  // namespace cleave
