#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/kernels/array.h"

namespace cleave {

// How windows of an operand correspond to the elements of an array of indices and to the windows of
// an array of slices (the result of a gather, the updates of a scatter). The names are those of
// gather.
//
//   embedding lookup: operand [vocab, d], indices [b, s], slices [b, s, d]
//     window_dims {2}, collapsed_dims {0}, index_map {0}, index_vector_dim 2
struct WindowMap {
  std::vector<int64_t> window_dims;     // of slices: the dimensions inside a window
  std::vector<int64_t> collapsed_dims;  // of operand: size one in a window, absent from slices
  std::vector<int64_t> operand_batching_dims;
  std::vector<int64_t> indices_batching_dims;
  std::vector<int64_t>
      index_map;                 // component k of an index is along operand dimension index_map[k]
  int64_t index_vector_dim = 0;  // of indices; its rank: every element is an index of one component

  // Dimensions of the operand that appear in slices, in order.
  std::vector<int64_t> window_operand_dims(size_t operand_rank) const;
};

// The windows of `operand` that start at the indices; those that stick out are moved inside.
Array gather_windows(const Array& operand, const Array& indices, const WindowMap& map,
                     const Shape& window, const Shape& result_shape);

// Combines the windows of `updates` into `target`, in row-major order of the indices, as far as
// they lie inside; without an operator, the last one stays. Returns false if the dtype does not
// know the operator; then nothing has changed.
bool scatter_windows(Array& target, const Array& indices, const Array& updates,
                     const WindowMap& map, std::optional<ReduceOp> op);

// Calls `visit` with the place of each window, cut to the part that lies inside `operand_shape`:
// where it starts in the operand and in the slices, and its size in each. Windows that lie outside
// are left out.
struct WindowPlace {
  Shape operand_start, operand_size;
  Shape slices_start, slices_size;
};
void for_each_window(const Shape& operand_shape, const Array& indices, const Shape& slices_shape,
                     const WindowMap& map, const std::function<void(const WindowPlace&)>& visit);

}  // namespace cleave
