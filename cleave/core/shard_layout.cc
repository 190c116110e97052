#include "cleave/core/shard_layout.h"

#include <algorithm>

namespace cleave {

Chunk chunk_of(int64_t n, int64_t shards, int64_t index) {
  const int64_t chunk = ceil_div(n, shards);
  const int64_t begin = std::min(index * chunk, n);
  return {begin, std::min(begin + chunk, n) - begin};
}

ShardSlice shard_slice(const ShardingSpec& spec, const Shape& shape, int64_t position) {
  ShardSlice slice{Shape(shape.size()), Shape(shape.size())};
  for (size_t d = 0; d < shape.size(); ++d) {
    const AxisList& axes = spec.dims[d].axes;
    const Chunk chunk =
        chunk_of(shape[d], total_size(axes), coordinate(axes, *spec.mesh, position));
    slice.offset[d] = chunk.offset;
    slice.size[d] = chunk.size;
  }
  return slice;
}

Shape local_shape(const ShardingSpec& spec, const Shape& shape) {
  Shape local = shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != kDynamicSize) local[d] = ceil_div(shape[d], total_size(spec.dims[d].axes));
  return local;
}

bool is_even(const ShardingSpec& spec, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] % total_size(spec.dims[d].axes) != 0) return false;
  return true;
}

}  // namespace cleave
