#include <algorithm>
#include <tuple>

#include "cleave/rules/propagate/factor_propagation.h"

namespace cleave {
namespace {

struct Candidate {
  int factor;
  int64_t source_size = -1;  // elements of the largest tensor that already has these axes
  int source_tensor = -1;
  int64_t shards = 0;  // counted for elementwise ops only
};

void find_source(const Projection& projection, const Axes& axes, Candidate& candidate) {
  const RuleIndex& index = *projection.index;
  for (int t = 0; t < index.num_tensors; ++t) {
    const FactorSharding* sharding = projection.find(t, candidate.factor);
    if (!sharding || prefix_status(axes, sharding->axes) == Prefix::No) continue;
    int64_t size = 1;
    for (int e = index.tensor_begin[t]; e < index.tensor_begin[t + 1]; ++e)
      if (projection.entries[e].present) size *= index.rule->factors[index.entries[e].factor].size;
    if (size > candidate.source_size) {
      candidate.source_size = size;
      candidate.source_tensor = t;
    }
  }
}

// The part of `axes` that this tensor can take along the factor; empty where nothing is gained.
Axes resolve_for_tensor(const Projection& projection, const FactorStep& step, int tensor,
                        int factor, const Axes& axes) {
  const FactorSharding* sharding = projection.find(tensor, factor);
  if (!sharding) return {};
  Axes resolved = axes;
  truncate_axes(resolved, step, [&](AxisRef& ref, int64_t sharded) {
    return resolve_within_factor(projection, tensor, factor, sharded, ref);
  });
  if (prefix_status(sharding->axes, resolved) != Prefix::Strict) return {};
  truncate_axes(resolved, step, [&](AxisRef& ref, int64_t) {
    return resolve_across_factors(projection, tensor, factor, ref);
  });
  return resolved;
}

// An operand of an elementwise op takes no more than the results have: where a result must stay
// replicated, sharding the other operands alike gains nothing.
void limit_to_results(const Projection& projection, int factor, Axes& axes) {
  const RuleIndex& index = *projection.index;
  for (int t = index.num_operands; t < index.num_tensors; ++t) {
    const FactorSharding* sharding = projection.find(t, factor);
    if (sharding && prefix_status(sharding->axes, axes) == Prefix::Strict) axes = sharding->axes;
  }
}

}  // namespace

void AggressiveFactorPropagation::propagate(Projection& projection, const FactorStep& step) const {
  const RuleIndex& index = *projection.index;
  thread_local std::vector<Axes> axes;
  thread_local std::vector<Candidate> candidates;
  axes.assign(index.num_factors, {});
  candidates.clear();
  for (int factor = 0; factor < index.num_factors; ++factor) {
    axes[factor] = collect_axes(projection, factor, step.directions[factor]);
    if (axes[factor].empty()) continue;
    Candidate& candidate = candidates.emplace_back(Candidate{factor});
    find_source(projection, axes[factor], candidate);
    if (step.elementwise) {
      candidate.shards = 1;
      for (const AxisRef& ref : axes[factor]) candidate.shards *= ref.size;
    }
  }
  if (candidates.empty()) return;
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.source_size, -a.shards, a.source_tensor, a.factor) <
           std::tuple(-b.source_size, -b.shards, b.source_tensor, b.factor);
  });

  for (int t = index.num_operands; t < index.num_tensors; ++t)
    for (const Candidate& candidate : candidates) {
      const Axes resolved =
          resolve_for_tensor(projection, step, t, candidate.factor, axes[candidate.factor]);
      if (!resolved.empty()) update_factor(projection, t, candidate.factor, resolved);
    }
  for (int t = 0; t < index.num_operands; ++t)
    for (const Candidate& candidate : candidates) {
      Axes resolved =
          resolve_for_tensor(projection, step, t, candidate.factor, axes[candidate.factor]);
      if (resolved.empty()) continue;
      if (step.elementwise) limit_to_results(projection, candidate.factor, resolved);
      update_factor(projection, t, candidate.factor, resolved);
    }
}

}  // namespace cleave
