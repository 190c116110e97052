#include <vector>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/runtime/partition_spec.h"

namespace cleave {
namespace {

void check_rank(const Shape& local, const ShardingSpec& spec, int64_t position) {
  if (local.size() != spec.rank())
    throw_user(
        "compute_global_shape: device {} has a shard <{}> of {} dimensions, and {} has {}; give a "
        "spec with an entry for each",
        position, to_string(local), local.size(), to_string(spec), spec.rank());
  for (int64_t size : local)
    if (size < 0)
      throw_user("compute_global_shape: device {} has a shard <{}> of a negative size", position,
                 to_string(local));
}

int64_t checked_product(int64_t size, int64_t shards, size_t d) {
  int64_t product = 0;
  if (__builtin_mul_overflow(size, shards, &product))
    throw_user("compute_global_shape: dimension {} of {} shards of {} is too large", d, shards,
               size);
  return product;
}

int64_t index_of(const ShardingSpec& spec, size_t d, int64_t position) {
  return coordinate(spec.dims[d].axes, *spec.mesh, position);
}

}  // namespace

Shape compute_global_shape(std::span<const Shape> locals, const ShardingSpec& spec) {
  verify(spec);
  const int64_t devices = spec.mesh->num_devices();
  if (static_cast<int64_t>(locals.size()) != devices)
    throw_user("compute_global_shape: {} shapes are given for the {} devices of {}", locals.size(),
               devices, to_string(*spec.mesh));
  for (int64_t i = 0; i < devices; ++i) check_rank(locals[static_cast<size_t>(i)], spec, i);
  Shape shape(spec.rank());
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> parts(static_cast<size_t>(total_size(spec.dims[d].axes)), -1);
    for (int64_t i = 0; i < devices; ++i) {
      int64_t& part = parts[static_cast<size_t>(index_of(spec, d, i))];
      const int64_t size = locals[static_cast<size_t>(i)][d];
      if (part >= 0 && part != size)
        throw_user(
            "compute_global_shape: dimension {}: device {} has {} of it, and another device has {} "
            "of the same part by {}",
            d, i, size, part, to_string(spec));
      part = size;
    }
    for (int64_t part : parts)
      if (__builtin_add_overflow(shape[d], part, &shape[d]))
        throw_user("compute_global_shape: dimension {} is too large", d);
    const auto shards = static_cast<int64_t>(parts.size());
    for (int64_t k = 0; k < shards; ++k)
      if (const int64_t size = chunk_of(shape[d], shards, k).size;
          size != parts[static_cast<size_t>(k)])
        throw_user(
            "compute_global_shape: dimension {}: the shards have {} elements together, of which "
            "shard {} of {} has {} by {}, and {} is given",
            d, shape[d], k, shards, size, to_string(spec), parts[static_cast<size_t>(k)]);
  }
  return shape;
}

Shape compute_global_shape(const Shape& local, const ShardingSpec& spec) {
  verify(spec);
  check_rank(local, spec, 0);
  Shape shape = local;
  for (size_t d = 0; d < shape.size(); ++d)
    shape[d] = checked_product(shape[d], total_size(spec.dims[d].axes), d);
  return shape;
}

}  // namespace cleave
