#include <numeric>

#include "cleave/rules/propagate/factor_propagation.h"

namespace cleave {
namespace {

// Cuts `ref` before its overlap with any of `axes`.
template <typename List>
bool cut_before_overlap(AxisRef& ref, const List& axes) {
  for (const AxisRef& other : axes) {
    if (ref.axis != other.axis) continue;
    const std::optional<AxisRef> prefix = prefix_without_overlap(ref, other);
    if (!prefix) return false;
    ref = *prefix;
  }
  return true;
}

// Joins `next` into `axes`. Returns whether the list may still be extended by later tensors.
//   ["a"] and ["a", "b"] -> ["a", "b"]              ["a", "b"] and ["a", "c"] -> ["a"], no more
//   ["a":(1)2] and ["a":(1)4] -> ["a":(1)4]         ["a":(1)2, "b"] and ["a":(1)4] -> ["a":(1)2],
//   no more
bool join(Axes& axes, const Axes& next, bool can_extend) {
  const uint32_t common = std::min(axes.size(), next.size());
  for (uint32_t i = 0; i < common; ++i) {
    if (axes[i] == next[i]) continue;
    if (is_prefix_of(next[i], axes[i])) {
      if (i + 1 < next.size()) {
        axes[i] = next[i];
        axes.truncate(i + 1);
        return false;
      }
    } else if (is_prefix_of(axes[i], next[i])) {
      if (!can_extend || i + 1 < axes.size()) {
        axes.truncate(i + 1);
        return false;
      }
      axes[i] = next[i];
    } else {
      axes.truncate(i);
      return false;
    }
  }
  if (can_extend)
    for (uint32_t i = axes.size(); i < next.size(); ++i) axes.push_back(next[i]);
  return can_extend;
}

}  // namespace

Axes collect_axes(const Projection& projection, int factor, Direction direction) {
  Axes axes;
  if (direction == Direction::None) return axes;
  const RuleIndex& index = *projection.index;
  bool can_extend = true;
  auto join_tensors = [&](int begin, int end) {
    for (int t = begin; t < end; ++t)
      if (const FactorSharding* sharding = projection.find(t, factor))
        can_extend = join(axes, sharding->axes, can_extend);
  };
  const bool backward = direction == Direction::Backward;
  const int operands = index.num_operands, all = index.num_tensors;
  join_tensors(backward ? operands : 0, backward ? all : operands);
  if (direction != Direction::Both) can_extend = false;
  join_tensors(backward ? 0 : operands, backward ? operands : all);
  return axes;
}

bool resolve_across_factors(const Projection& projection, int tensor, int factor, AxisRef& ref) {
  const RuleIndex& index = *projection.index;
  for (int e = index.tensor_begin[tensor]; e < index.tensor_begin[tensor + 1]; ++e) {
    const FactorSharding& sharding = projection.entries[e];
    if (index.entries[e].factor == factor || !sharding.present) continue;
    if (!cut_before_overlap(ref, sharding.overflow)) return false;
    if (!cut_before_overlap(ref, sharding.axes)) return false;
  }
  return true;
}

bool resolve_within_factor(const Projection& projection, int tensor, int factor, int64_t sharded,
                           AxisRef& ref) {
  if (const ShardingSpec* spec = projection.specs[tensor]) {
    if (!cut_before_overlap(ref, spec->replicated)) return false;
    if (!cut_before_overlap(ref, spec->partial)) return false;
  }
  const FactorSharding& sharding = *projection.find(tensor, factor);
  for (const AxisRef& own : sharding.axes)
    if (contains(own, ref)) return true;

  if (!sharding.closed && sharding.overflow.empty()) {
    if (sharding.minor_most) return true;
    const int64_t size = projection.index->rule->factors[factor].size;
    if (size % sharded == 0) {
      const int64_t part = std::gcd(size / sharded, int64_t{ref.size});
      if (part == ref.size) return true;
      if (part != 1) {
        ref.size = static_cast<int32_t>(part);
        return true;
      }
    }
  }
  // Not extendable, but what the factor already has can stay.
  if (!sharding.axes.empty() && is_prefix_of(sharding.axes.back(), ref)) {
    ref = sharding.axes.back();
    return true;
  }
  return false;
}

bool update_factor(Projection& projection, int tensor, int factor, const Axes& axes) {
  FactorSharding* sharding = projection.find(tensor, factor);
  if (!sharding || prefix_status(sharding->axes, axes) != Prefix::Strict) return false;
  sharding->axes = axes;
  projection.changed[tensor] = 1;
  return true;
}

void BasicFactorPropagation::propagate(Projection& projection, const FactorStep& step) const {
  const int tensors = projection.index->num_tensors;
  for (int factor = 0; factor < projection.index->num_factors; ++factor) {
    Axes axes = collect_axes(projection, factor, step.directions[factor]);
    if (axes.empty()) continue;
    truncate_axes(axes, step, [&](AxisRef& ref, int64_t sharded) {
      for (int t = 0; t < tensors; ++t) {
        if (!resolve_across_factors(projection, t, factor, ref)) return false;
        if (projection.find(t, factor) &&
            !resolve_within_factor(projection, t, factor, sharded, ref))
          return false;
      }
      return true;
    });
    if (axes.empty()) continue;
    for (int t = 0; t < tensors; ++t) update_factor(projection, t, factor, axes);
  }
}

}  // namespace cleave
