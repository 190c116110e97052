#include "cleave/spmd/factor_axes.h"

#include <algorithm>

#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

// The factors of a dimension that have more than one index; size-1 factors only where there is no
// other.
DimFactors real_factors(const DimFactors& dim, const OpShardingRule& rule) {
  DimFactors result;
  for (FactorIndex f : dim)
    if (rule.factors[f].size != 1) result.push_back(f);
  if (result.empty() && !dim.empty()) result.push_back(dim.front());
  return result;
}

bool fits_with_all(const AxisRef& ref, const AxisList& used) {
  return std::all_of(used.begin(), used.end(), [&](const AxisRef& other) {
    return can_coexist(ref, other) && !overlaps(ref, other);
  });
}

}  // namespace

FactorChooser::FactorChooser(const Graph& graph, const Node& node, const OpShardingRule& rule)
    : graph_(graph), node_(node), rule_(rule), in_compound_(rule.factors.size()) {
  for (size_t t = 0; t < rule.num_tensors(); ++t)
    for (const DimFactors& dim : rule.tensor(t)) {
      const DimFactors factors = real_factors(dim, rule);
      if (factors.size() > 1)
        for (FactorIndex f : factors) in_compound_[f] = true;
    }
  for (size_t f = 0; f < rule.factors.size(); ++f)
    borrows_.push_back(is_borrowed(static_cast<FactorIndex>(f)));
  for (size_t f = 0; f < rule.factors.size(); ++f)
    runs_sharded_.push_back(runs_sharded(static_cast<FactorIndex>(f)));
}

// Whether a shard of a factor that all tensors seem to share takes other elements of an operand
// than those beside it: a pad by -1 and +1 keeps the size, but moves every element.
bool FactorChooser::moves_elements(FactorIndex f) const {
  const int64_t size = rule_.factors[f].size, half = size / 2;
  if (half == 0) return false;
  const size_t operands = rule_.operands.size();
  auto is_along = [&](size_t t, size_t d) {
    const DimFactors& dim = rule_.tensor(t)[d];
    return dim.size() == 1 && dim[0] == f && shape(t)[d] == size;
  };
  for (const auto& [offset, count] : {std::pair{int64_t{0}, half}, std::pair{half, size - half}}) {
    std::vector<ShardSlice> boxes;
    for (size_t t = 0; t < rule_.num_tensors(); ++t) {
      ShardSlice& box = boxes.emplace_back(ShardSlice{Shape(shape(t).size()), shape(t)});
      for (size_t d = 0; d < box.size.size(); ++d) {
        if (!is_along(t, d)) continue;
        box.offset[d] = offset;
        box.size[d] = count;
      }
    }
    std::vector<ShardSlice> needed(boxes.begin(), boxes.begin() + operands);
    node_.def->needs(graph_, node_, std::span(boxes).subspan(operands), needed);
    for (size_t i = 0; i < operands; ++i)
      for (size_t d = 0; d < needed[i].size.size(); ++d)
        if (is_along(i, d) && (needed[i].offset[d] != offset || needed[i].size[d] != count))
          return true;
  }
  return false;
}

// Permutations with `needs` do; so do reductions along dimensions that `needs` overwrites, and
// factors whose elements move although the sizes stay.
bool FactorChooser::is_borrowed(FactorIndex f) const {
  if (!node_.def->needs) return false;
  if (rule_.factors[f].kind == FactorKind::Permutation) return true;
  if (rule_.factors[f].kind == FactorKind::PassThrough) return moves_elements(f);
  if (rule_.factors[f].kind != FactorKind::Reduction) return false;
  std::vector<ShardSlice> whole;
  for (size_t t = 0; t < rule_.num_tensors(); ++t)
    whole.push_back({Shape(shape(t).size()), shape(t)});
  const std::span all(whole);
  const size_t operands = rule_.operands.size();
  constexpr int64_t kUntouched = -1;
  for (size_t i = 0; i < operands; ++i)
    for (size_t d = 0; d < rule_.operands[i].size(); ++d) {
      const DimFactors& dim = rule_.operands[i][d];
      if (std::find(dim.begin(), dim.end(), f) == dim.end()) continue;
      std::vector<ShardSlice> needed(whole.begin(), whole.begin() + operands);
      needed[i].offset[d] = kUntouched;
      node_.def->needs(graph_, node_, all.subspan(operands), needed);
      if (needed[i].offset[d] != kUntouched) return true;
    }
  return false;
}

bool FactorChooser::runs_apart(FactorIndex f) const {
  const FactorKind kind = rule_.factors[f].kind;
  return kind != FactorKind::NeedReplication && kind != FactorKind::Permutation && can_shard(f) &&
         !borrows(f);
}

bool FactorChooser::all_borrow(const DimFactors& factors) const {
  return std::all_of(factors.begin(), factors.end(), [&](FactorIndex f) { return borrows_[f]; });
}

const Shape& FactorChooser::shape(size_t tensor) const {
  const size_t operands = node_.operands.size();
  return graph_.type(tensor < operands ? node_.operands[tensor] : node_.results[tensor - operands])
      .shape;
}

bool FactorChooser::runs_sharded(FactorIndex f) const {
  const Factor& factor = rule_.factors[f];
  if (node_.def->shardable && !node_.def->shardable(graph_, node_, rule_, f)) return false;
  if (factor.kind == FactorKind::Reduction && factor.unknown_reduce) return false;
  const bool has_needs = node_.def->needs;
  const bool moves =
      factor.kind == FactorKind::NeedReplication || factor.kind == FactorKind::Permutation;
  if (moves && !has_needs) return false;
  bool in_operand = false;
  for (size_t t = 0; t < rule_.num_tensors(); ++t) {
    bool found = false;
    for (size_t d = 0; d < rule_.tensor(t).size(); ++d) {
      const DimFactors& dim = rule_.tensor(t)[d];
      if (std::find(dim.begin(), dim.end(), f) == dim.end()) continue;
      if (found) return false;  // a diagonal
      found = true;
      const bool resized = real_factors(dim, rule_).size() == 1 && shape(t)[d] != factor.size;
      if (resized && !moves && !borrows_[f]) return false;
    }
    const bool is_result = t >= rule_.operands.size();
    in_operand |= found && !is_result;
    // A result without it needs all of the operand; what the op draws or counts itself needs none.
    if (!found && is_result && in_operand && factor.kind != FactorKind::Reduction) return false;
  }
  return true;
}

void FactorChooser::propose(size_t tensor, const ShardingSpec& spec) {
  const TensorFactors& dims = rule_.tensor(tensor);
  const size_t operands = node_.operands.size();
  const double bytes = static_cast<double>(
      graph_.type(tensor < operands ? node_.operands[tensor] : node_.results[tensor - operands])
          .byte_count());
  for (size_t d = 0; d < dims.size() && d < spec.dims.size(); ++d) {
    AxisList axes = spec.dims[d].axes;
    const DimFactors factors = real_factors(dims[d], rule_);
    if (all_borrow(factors)) {
      for (FactorIndex f : factors)
        if (!axes.empty() && runs_sharded_[f])
          candidates_.push_back({f, axes, bytes, spec.dims[d].priority});
      continue;
    }
    size_t next = 0;
    for (FactorIndex f : factors) {
      if (next == axes.size()) break;
      AxisList taken;
      int64_t rest = rule_.factors[f].size;
      const bool exact = in_compound_[f] && !borrows_[f];
      while (next < axes.size() && rest > 0) {
        AxisRef& axis = axes[next];
        if (!exact || rest % axis.size == 0) {
          taken.push_back(axis);
          rest = exact ? rest / axis.size : rest;
          ++next;
        } else if (rest > 1 && axis.size % rest == 0) {
          taken.push_back({axis.axis, axis.pre, static_cast<int32_t>(rest)});
          axis = {axis.axis, static_cast<int32_t>(axis.pre * rest),
                  static_cast<int32_t>(axis.size / rest)};
          rest = 1;
        } else {
          break;
        }
        if (exact && rest == 1) break;
      }
      if (!taken.empty() && runs_sharded_[f])
        candidates_.push_back({f, taken, bytes, spec.dims[d].priority});
      if (exact && rest != 1) break;
    }
  }
}

void FactorChooser::bar(const AxisList& axes) {
  barred_.insert(barred_.end(), axes.begin(), axes.end());
}

std::optional<int64_t> FactorChooser::priority_of(FactorIndex factor, const AxisList& axes) const {
  std::optional<int64_t> least;
  for (const Candidate& candidate : candidates_) {
    if (candidate.factor != factor || !is_prefix_of(axes, candidate.axes)) continue;
    if (!candidate.priority) return std::nullopt;
    least = std::min(least.value_or(*candidate.priority), *candidate.priority);
  }
  return least;
}

FactorAxes FactorChooser::choose() const {
  std::vector<Candidate> ranked;
  for (const Candidate& candidate : candidates_) {
    double bytes = 0;
    for (const Candidate& other : candidates_)
      if (other.factor == candidate.factor && is_prefix_of(candidate.axes, other.axes))
        bytes += other.bytes;
    ranked.push_back({candidate.factor, candidate.axes, bytes, candidate.priority});
  }
  // Of a window and a reduction that borrow, the op lets the reduction run where it borrows less.
  auto first = [&](FactorIndex f) {
    return borrows_[f] && rule_.factors[f].kind == FactorKind::Reduction;
  };
  std::stable_sort(ranked.begin(), ranked.end(), [&](const Candidate& a, const Candidate& b) {
    const int64_t first_a = a.priority.value_or(0), first_b = b.priority.value_or(0);
    if (first_a != first_b) return first_a < first_b;
    const int64_t size_a = total_size(a.axes), size_b = total_size(b.axes);
    if (size_a != size_b) return size_a > size_b;
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    if (first(a.factor) != first(b.factor)) return first(a.factor);
    return a.factor < b.factor;
  });
  FactorAxes axes(rule_.factors.size());
  for (const Candidate& candidate : ranked) {
    AxisList& chosen = axes[candidate.factor];
    if (!is_prefix_of(chosen, candidate.axes)) continue;
    AxisList used = barred_;
    for (size_t f = 0; f < axes.size(); ++f)
      if (static_cast<FactorIndex>(f) != candidate.factor)
        used.insert(used.end(), axes[f].begin(), axes[f].end());
    AxisList fitting;
    for (const AxisRef& ref : candidate.axes) {
      if (!fits_with_all(ref, used)) break;
      fitting.push_back(ref);
    }
    if (is_prefix_of(chosen, fitting)) chosen = fitting;
  }
  drop_misaligned(axes);
  return axes;
}

bool FactorChooser::is_aligned(const FactorAxes& axes) const {
  FactorAxes kept = axes;
  drop_misaligned(kept);
  return kept == axes;
}

void FactorChooser::drop_misaligned(FactorAxes& axes) const {
  bool changed = true;
  auto drop = [&](FactorIndex f) {
    if (axes[f].empty()) return;
    axes[f].clear();
    changed = true;
  };
  while (changed) {
    changed = false;
    std::optional<ReduceOp> reduction;
    for (size_t f = 0; f < axes.size(); ++f) {
      if (axes[f].empty() || rule_.factors[f].kind != FactorKind::Reduction) continue;
      if (!reduction) reduction = rule_.factors[f].reduce;
      if (*reduction != rule_.factors[f].reduce) drop(static_cast<FactorIndex>(f));
    }
    for (size_t t = 0; t < rule_.num_tensors(); ++t)
      for (const DimFactors& dim : rule_.tensor(t)) {
        const DimFactors factors = real_factors(dim, rule_);
        if (factors.size() < 2 || all_borrow(factors)) continue;
        bool full = true;  // all more major factors are sharded down to single indices
        for (FactorIndex f : factors) {
          const int64_t shards = total_size(axes[f]);
          if (!full || (!borrows_[f] && rule_.factors[f].size % shards != 0)) drop(f);
          full = full && !borrows_[f] && total_size(axes[f]) == rule_.factors[f].size;
        }
      }
  }
}

bool has_factor(const TensorFactors& tensor, FactorIndex factor) {
  return std::any_of(tensor.begin(), tensor.end(), [&](const DimFactors& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

void place(const FactorAxes& axes, const TensorFactors& tensor, ShardingSpec& spec) {
  for (size_t d = 0; d < tensor.size(); ++d) {
    spec.dims[d].axes.clear();
    for (FactorIndex f : tensor[d])
      for (const AxisRef& ref : axes[f]) append_axis(spec.dims[d].axes, ref);
  }
}

}  // namespace cleave
