#pragma once

#include <span>
#include <vector>

#include "cleave/runtime/tensor.h"

// Reading and writing by index. Indices are integers; negative ones count from the end if the
// function says so. Tables may be sharded along the indexed dimension: each device looks up what it
// holds.
namespace cleave {

// x with dimension `dim` replaced by the shape of the indices. Negative indices count from the end;
// those beyond the ends read the nearest element.
//   take([v, d], [b, s], 0) -> [b, s, d]
Tensor take(const Tensor& x, const Tensor& indices, int64_t dim);
// One element for every index; shapes agree but for `dim`.
//   take_along([b, v], [b, 1], 1) -> [b, 1]
Tensor take_along(const Tensor& x, const Tensor& indices, int64_t dim);
Tensor embedding(const Tensor& table, const Tensor& ids);  // rows of a table
Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype = DType::F32);

// x with updates combined into (or put in the place of) the slices along `dim` that the indices
// name; indices beyond the ends are left out. Updates have x's shape with `dim` replaced by the
// shape of the indices. If an index comes twice, both are added.
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim = 0);
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim = 0);
Tensor scatter_set(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim = 0);

// A box of given sizes that starts at the scalars, moved so that it fits.
Tensor dynamic_slice(const Tensor& x, std::span<const Tensor> starts,
                     const std::vector<int64_t>& sizes);
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, std::span<const Tensor> starts);

}  // namespace cleave
