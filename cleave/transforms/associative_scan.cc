#include "cleave/transforms/associative_scan.h"

#include "cleave/core/error.h"

namespace cleave::associative_scan_detail {

int64_t common_size(std::span<const Tensor> leaves, int64_t dim) {
  if (leaves.empty()) throw_user("associative_scan: there are no tensors");
  const int64_t size = leaves[0].dim(dim);
  for (const Tensor& leaf : leaves)
    if (leaf.dim(dim) != size)
      throw_user("associative_scan: tensor<{}> and tensor<{}> differ along dimension {}",
                 to_string(leaves[0].shape()), to_string(leaf.shape()), dim);
  return size;
}

Tensor interleave(const Tensor& even, const Tensor& odd, int64_t dim) {
  const int64_t d = dim < 0 ? dim + even.rank() : dim;
  const int64_t count = odd.dim(d);
  Shape shape = odd.shape();
  shape[static_cast<size_t>(d)] = 2 * count;
  const Tensor pairs = reshape(stack({slice_dim(even, d, 0, count), odd}, d + 1), shape);
  return even.dim(d) == count ? pairs : concat({pairs, slice_dim(even, d, count)}, d);
}

}  // namespace cleave::associative_scan_detail
