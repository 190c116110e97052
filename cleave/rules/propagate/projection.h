#pragma once

#include <span>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/core/small_vector.h"
#include "cleave/rules/propagate/rule_index.h"

namespace cleave {

using Axes = SmallVector<AxisRef, 4>;  // major to minor

// How one factor of one tensor is sharded.
struct FactorSharding {
  Axes axes;
  // Axes of the dimension that come after `axes` and whose size has no common divisor with what is
  // left of this factor: they stay where they are, and nothing is added to this factor.
  Axes overflow;
  bool closed = false;
  bool minor_most = false;
  // False for a factor that is cut off by the overflow of one before it: the tensor then behaves as
  // if it did not have the factor.
  bool present = false;
  bool operator==(const FactorSharding&) const = default;
};

// The shardings of an op's operands and results seen from its factors. An entry is a factor of a
// tensor, numbered as in RuleIndex.
//
//   rule ([ij])->([i, j]) {i=2, j=4},  mesh x=4, y=2
//   operand [{"x", "y"}]   ->   i: "x":(1)2    j: "x":(2)2, "y"
//   result  [{?}, {?}]     ->   i: ?           j: ?
//
// Factors are filled major to minor; an axis is split if only a part of it (by greatest common
// divisor) fits the factor. The minor-most factor of a dimension takes everything that is left,
// even what does not divide it (padding).
struct Projection {
  const RuleIndex* index = nullptr;
  std::vector<FactorSharding> entries;
  // Per tensor: the axes that no factor may use.
  std::vector<const ShardingSpec*> specs;
  std::vector<uint8_t> changed;  // per tensor: some factor was expanded since the projection

  FactorSharding* find(int tensor, int factor) {
    const int entry = index->find(tensor, factor);
    return entry < 0 || !entries[entry].present ? nullptr : &entries[entry];
  }
  const FactorSharding* find(int tensor, int factor) const {
    return const_cast<Projection*>(this)->find(tensor, factor);
  }
};

// Fills `projection` from the specs of operands, then results; a null spec is fully open. Reuses
// the memory of `projection`.
void project(const RuleIndex& index, std::span<const ShardingSpec* const> specs,
             Projection& projection);

// The inverse: the spec of one tensor, with the replicated and partial axes of its old spec. A
// factor that would need strided elements (it is minor to one that is not fully sharded) is left
// out.
//   i: "x":(1)2   j: "x":(2)2, "y"   ->   [{"x", "y"}]
//   i: (size 4) "x":(1)2   j: "y"    ->   [{"x":(1)2}]
ShardingSpec to_spec(const Projection& projection, int tensor, const MeshPtr& mesh);

// Whether `a` is a prefix of `b`; the last axis of `a` may be a prefix of the one in `b`.
enum class Prefix : uint8_t { Equal, Strict, No };
Prefix prefix_status(const Axes& a, const Axes& b);

}  // namespace cleave
