#include "cleave/reshard/reordered_bytes.h"

#include <algorithm>

namespace cleave {
namespace {

int64_t extent(const ShardingSpec& spec, const Shape& shape, size_t dim) {
  const int64_t shards = total_size(spec.dims[dim].axes);
  return (shape[dim] + shards - 1) / shards;
}

int64_t bytes_of(const ShardingSpec& spec, const Shape& shape, DType dtype) {
  int64_t elements = 1;
  for (size_t d = 0; d < shape.size(); ++d) elements *= extent(spec, shape, d);
  return elements * byte_size(dtype);
}

// Other dimensions with more than one element come before it and after it.
bool is_between(const ShardingSpec& spec, const Shape& shape, size_t dim) {
  bool before = false, after = false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (d != dim && extent(spec, shape, d) > 1) (d < dim ? before : after) = true;
  return before && after;
}

}  // namespace

int64_t reordered_bytes(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                        DType dtype) {
  if (!from.mesh || !to.mesh || from.dims.size() != shape.size() ||
      to.dims.size() != shape.size() || std::count(shape.begin(), shape.end(), kDynamicSize) > 0)
    return 0;
  bool gathers = false, scatters = false, is_gathered_between = false, is_scattered_between = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t before = total_size(from.dims[d].axes), after = total_size(to.dims[d].axes);
    if (before > after) {
      gathers = true;
      is_gathered_between |= is_between(to, shape, d);
    } else if (before < after) {
      scatters = true;
      is_scattered_between |= is_between(from, shape, d);
    }
  }
  const bool reduces = total_size(from.partial) > total_size(to.partial);
  if (gathers && scatters) return bytes_of(from, shape, dtype);
  if (gathers && is_gathered_between) return bytes_of(to, shape, dtype);
  if (scatters && reduces && is_scattered_between) return bytes_of(from, shape, dtype);
  return 0;
}

}  // namespace cleave
