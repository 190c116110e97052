#pragma once

#include <cstdint>

#include "cleave/graph/graph.h"

namespace cleave {

// A small generator that gives the same numbers everywhere (splitmix64).
class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  bool chance(double probability);

 private:
  uint64_t state_;
};

// A valid spec for a tensor: whole axes and sub-axes on any dimensions, in any order, whether or
// not they divide; some left replicated; with `partial`, some pending under a reduction that the
// dtype knows.
ShardingSpec random_spec(RandomSource& random, const MeshPtr& mesh, const Type& type, bool partial);

// Shards a module in every way at once, to see that it still means the same: all arguments and
// results of the entry, and about half of the values inside (also in calls, loops and branches),
// get random specs; the latter by sdy.sharding_constraint. The same seed gives the same shardings.
void shard_randomly(Graph& graph, std::string_view entry, const MeshPtr& mesh, uint64_t seed);

}  // namespace cleave
