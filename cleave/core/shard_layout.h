#pragma once

#include <vector>

#include "cleave/core/shape.h"
#include "cleave/core/sharding.h"

namespace cleave {

// The part of a tensor that one device holds: its true elements, without padding.
struct ShardSlice {
  Shape offset;
  Shape size;
  bool operator==(const ShardSlice&) const = default;
};

// One dimension of n over w shards: chunks of ceil(n/w); the last ones are short or empty.
//   9 over 4 -> 3,3,3,0     5 over 4 -> 2,2,1,0
struct Chunk {
  int64_t offset;
  int64_t size;
};
Chunk chunk_of(int64_t n, int64_t shards, int64_t index);

// The slice of the device at `position` of the spec's mesh.
ShardSlice shard_slice(const ShardingSpec& spec, const Shape& shape, int64_t position);
// The largest shard: ceil chunks in every dimension. What a device must have room for.
Shape local_shape(const ShardingSpec& spec, const Shape& shape);
bool is_even(const ShardingSpec& spec, const Shape& shape);

}  // namespace cleave
