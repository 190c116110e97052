#pragma once

#include <span>

#include "cleave/rules/propagate/direction.h"
#include "cleave/rules/propagate/projection.h"

namespace cleave {

// What a strategy needs to know beside the projection.
struct FactorStep {
  std::span<const Direction> directions;  // per factor
  const Mesh& mesh;
  bool conservative = false;  // never give a part of an axis
  bool elementwise = false;
};

// Spreads axes between the tensors of one op, factor by factor. Expands entries of `projection` and
// marks the tensors that changed.
class FactorPropagation {
 public:
  virtual ~FactorPropagation() = default;
  virtual void propagate(Projection& projection, const FactorStep& step) const = 0;
};

// The same axes for every tensor along a factor: the longest prefix that fits all of them. Never
// decides a conflict.
//   factor shardings ["a"], [], ["a", "b"]   ->   ["a", "b"] for all three
//   ["a", "b"] and ["a", "c"]                ->   ["a"]
class BasicFactorPropagation final : public FactorPropagation {
 public:
  void propagate(Projection& projection, const FactorStep& step) const override;
};

// Tensor by tensor: each gets as much as fits it, and if one axis could shard several factors of a
// tensor, the first of these criteria that tells them apart decides: the factor whose axes come
// from the larger tensor; for elementwise ops, the factor with more shards; the lower tensor; the
// lower factor. Results come before operands.
//   C = dot(A, B), A sharded "a" along m, B sharded "a" along n:
//   C gets "a" along the factor of the larger operand
class AggressiveFactorPropagation final : public FactorPropagation {
 public:
  void propagate(Projection& projection, const FactorStep& step) const override;
};

// The three steps that both strategies are made of.

// Collect: the longest list of axes along `factor` that no tensor contradicts, regardless of other
// factors. Going one way, only the tensors at the source can make it longer; the others can still
// cut it.
Axes collect_axes(const Projection& projection, int factor, Direction direction);

// Resolve: the longest prefix of `ref` that tensor `tensor` can take along `factor` ...
// ... without touching an axis that another of its factors uses,
bool resolve_across_factors(const Projection& projection, int tensor, int factor, AxisRef& ref);
// ... without touching its replicated and partial axes, closed dimensions, overflow, or sizes that
// do not divide (if the factor is not minor-most). `sharded` is the size of the axes before `ref`.
// Both change `ref` to that prefix and return false if there is none.
bool resolve_within_factor(const Projection& projection, int tensor, int factor, int64_t sharded,
                           AxisRef& ref);

// Update: gives `axes` to the tensor along the factor if that extends what it has.
bool update_factor(Projection& projection, int tensor, int factor, const Axes& axes);

// Walks over `axes` with a resolve step per axis and cuts the list at the first one that does not
// survive whole.
template <typename Resolve>
void truncate_axes(Axes& axes, const FactorStep& step, Resolve&& resolve) {
  int64_t sharded = 1;
  for (uint32_t i = 0; i < axes.size(); ++i) {
    AxisRef ref = axes[i];
    if (!resolve(ref, sharded) || (step.conservative && !is_whole(ref, step.mesh))) {
      axes.truncate(i);
      return;
    }
    if (ref != axes[i]) {
      axes[i] = ref;
      axes.truncate(i + 1);
      return;
    }
    sharded *= ref.size;
  }
}

}  // namespace cleave
