#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/sharding.h"

namespace cleave {

// What a tensor does along one mesh axis, as DTensor says it:
//
//   R        replicated
//   S(0)     dimension 0 is split; if several mesh axes split one dimension, the first mesh
//            axis is the major one
//   SS(0,4)  strided: dimension 0 is split, and later mesh axes with 4 shards in all are major
//            to this one (DTensor's _StridedShard with split_factor 4)
//   P(sum)   partial, with a pending reduction
//
// On the mesh x=2,y=4:
//   [{"x"}, {"y"}]           S(0), S(1)
//   [{"x", "y"}, {}]         S(0), S(0)
//   [{"y", "x"}, {}]         SS(0,4), S(0)
//   [{}, {"x"}], unreduced={"y"}   S(1), P(sum)
struct Placement {
  enum class Kind : uint8_t { Replicate, Shard, StridedShard, Partial };
  Kind kind = Kind::Replicate;
  int dim = 0;                      // Shard, StridedShard
  int64_t split_factor = 1;         // StridedShard
  ReduceOp reduce = ReduceOp::Sum;  // Partial

  static Placement replicate() { return {}; }
  static Placement shard(int dim) { return {Kind::Shard, dim, 1, ReduceOp::Sum}; }
  static Placement strided(int dim, int64_t split_factor) {
    return {Kind::StridedShard, dim, split_factor, ReduceOp::Sum};
  }
  static Placement partial(ReduceOp op) { return {Kind::Partial, 0, 1, op}; }

  bool is_replicate() const { return kind == Kind::Replicate; }
  bool is_shard() const { return kind == Kind::Shard; }  // not strided
  bool is_partial() const { return kind == Kind::Partial; }
  bool operator==(const Placement&) const = default;
};

using Placements = std::vector<Placement>;  // one per mesh axis, in order

// Openness, priorities and explicitly replicated axes have no counterpart here and are lost. Throws
// UserError if an axis is used in parts.
Placements to_placements(const ShardingSpec& spec);
// A closed spec. Throws UserError if a dimension is not one of the tensor's, if a split factor does
// not fit the later axes, or if partial axes have different reductions.
ShardingSpec from_placements(const Placements& placements, const MeshPtr& mesh, size_t rank);

// Whether a tensor of this shape lies as those placements say, element by element. They split along
// one mesh axis after the other, in the order of the mesh, and every chunk again:
//
//   5 elements over x=2,y=2:   ["x", "y"]  holds 2, 2, 1, 0   S(0), S(0)  holds 2, 1, 1, 1   ->
//   false 7 elements over x=2,y=2:   2, 2, 2, 1 in both             -> true
//   ["y", "x"], parts of axes, pending sums                   -> false
bool lies_as_placements(const ShardingSpec& spec, const Shape& shape);

std::string to_string(const Placement& placement);    // S(0)
std::string to_string(const Placements& placements);  // S(0), R, P(sum)
Placements parse_placements(std::string_view text);

}  // namespace cleave
