#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/train/transformations.h"

namespace cleave::train {
namespace {

// The axes over which any of these sums is pending, in mesh order; nothing if two of them are
// different parts of one axis.
AxisList pending_axes(const std::vector<Tensor>& sums) {
  AxisList axes;
  for (const Tensor& sum : sums)
    for (const AxisRef& axis : sum.sharding().partial) {
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
      if (overlaps_any(axis, axes)) return {};
      axes.push_back(axis);
    }
  std::sort(axes.begin(), axes.end());
  merge_neighbours(axes);
  return axes;
}

class GlobalNormClip : public Transformation {
 public:
  explicit GlobalNormClip(double limit) : limit_(limit) {}
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves&,
                             StateSlots&) const override {
    if (grads.empty()) return grads;
    const Tensor norm = global_norm(grads);
    const Tensor small = less(norm, limit_);
    for (Tensor& g : grads) g = where(small, g, g / cast(norm, g.dtype()) * limit_);
    return grads;
  }

 private:
  double limit_;
};

class BlockRmsClip : public Transformation {
 public:
  explicit BlockRmsClip(double limit) : limit_(limit) {}
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves&,
                             StateSlots&) const override {
    for (Tensor& g : grads) g = g / maximum(sqrt(mean(square(g))) / limit_, 1.0);
    return grads;
  }

 private:
  double limit_;
};

void check_limit(const char* what, double limit) {
  if (!(limit > 0)) throw_user("{}: the limit is {}; it must be above 0", what, limit);
}

}  // namespace

Tensor sum_at_once(std::vector<Tensor> numbers) {
  if (numbers.empty()) throw_user("sum_at_once: there is no number");
  // All of them are made pending over all axes, which moves nothing.
  const AxisList axes = pending_axes(numbers);
  MeshPtr mesh;
  for (const Tensor& number : numbers)
    if (number.mesh()) mesh = number.mesh();
  if (mesh && !axes.empty()) {
    ShardingSpec spec = ShardingSpec::closed_replicated(mesh, 0);
    spec.partial = axes;
    for (Tensor& number : numbers)
      if (number.sharding().partial != axes) number = number.with_sharding(spec);
  }
  Tensor total = numbers[0];
  for (size_t i = 1; i < numbers.size(); ++i) total = total + numbers[i];
  return total;
}

Tensor global_norm(const std::vector<Tensor>& leaves) {
  if (leaves.empty()) throw_user("global_norm: there is no tensor");
  std::vector<Tensor> squares;
  for (const Tensor& leaf : leaves) squares.push_back(cast(sum(square(to_wide(leaf))), DType::F32));
  return sqrt(sum_at_once(std::move(squares)));
}

Optimizer clip_by_global_norm(double limit) {
  check_limit("clip_by_global_norm", limit);
  return Optimizer(std::make_shared<GlobalNormClip>(limit));
}

Optimizer clip_by_block_rms(double limit) {
  check_limit("clip_by_block_rms", limit);
  return Optimizer(std::make_shared<BlockRmsClip>(limit));
}

}  // namespace cleave::train
