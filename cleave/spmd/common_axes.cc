#include "cleave/spmd/common_axes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace cleave {
namespace {

AxisList list_of(const Axes& axes) { return AxisList(axes.begin(), axes.end()); }

bool is_strict_prefix(const AxisList& a, const AxisList& b) { return a != b && is_prefix_of(a, b); }

// The longest prefix that does not overlap `taken`; whether that is less than all.
bool truncate_to_free(AxisList& axes, const AxisList& taken) {
  AxisList free;
  for (const AxisRef& ref : axes) {
    if (!overlaps_any(ref, taken)) {
      free.push_back(ref);
      continue;
    }
    std::optional<AxisRef> part = ref;
    for (const AxisRef& other : taken)
      if (part && overlaps(*part, other)) part = prefix_without_overlap(*part, other);
    if (part) free.push_back(*part);
    break;
  }
  const bool shorter = free != axes;
  axes = std::move(free);
  return shorter;
}

struct Candidate {
  int factor;
  AxisList axes;
  int64_t elements;       // of the tensors that have it
  int64_t sharding_size;  // beyond what the factor has already
};

class CommonAxes {
 public:
  CommonAxes(const Projection& projection, const Mesh& mesh, const std::vector<int64_t>& sizes)
      : projection_(projection),
        index_(*projection.index),
        rule_(*projection.index->rule),
        mesh_(mesh),
        sizes_(sizes) {
    for (int t = 0; t < index_.num_tensors; ++t)
      if (!rule_.tensor(t).empty()) non_scalar_.push_back(t);
  }

  AxesPerFactor find() {
    if (auto agreed = compatible()) return *agreed;
    const bool must_replicate =
        std::any_of(rule_.factors.begin(), rule_.factors.end(),
                    [](const Factor& f) { return f.kind == FactorKind::NeedReplication; });
    if (non_scalar_.size() == 2 && !must_replicate && !index_.has_compound) return of_one_tensor();
    AxesPerFactor result = greedy();
    if (must_replicate) hand_to_batching(result);
    return result;
  }

 private:
  std::optional<AxesPerFactor> compatible() const {
    AxesPerFactor result(index_.num_factors);
    AxisList seen;
    for (int f = 0; f < index_.num_factors; ++f) {
      std::optional<AxisList> common;
      for (int t = 0; t < index_.num_tensors; ++t) {
        const FactorSharding* sharding = projection_.find(t, f);
        if (!sharding) continue;
        AxisList axes = list_of(sharding->axes);
        if (common && *common != axes) return std::nullopt;
        common = std::move(axes);
      }
      if (!common || common->empty()) continue;
      if (rule_.factors[f].kind == FactorKind::NeedReplication) return std::nullopt;
      for (const AxisRef& ref : *common) {
        if (overlaps_any(ref, seen)) return std::nullopt;
      }
      seen.insert(seen.end(), common->begin(), common->end());
      result[f] = *common;
    }
    return result;
  }

  AxesPerFactor of_one_tensor() const {
    auto preference = [&](int t) {
      bool permuted = false;
      int64_t sharding_size = 1;
      for (int f = 0; f < index_.num_factors; ++f) {
        const FactorSharding* sharding = projection_.find(t, f);
        if (!sharding) continue;
        if (rule_.factors[f].kind == FactorKind::Permutation && !sharding->axes.empty())
          permuted = true;
        sharding_size *=
            total_size(list_of(sharding->axes)) * total_size(list_of(sharding->overflow));
      }
      return std::make_tuple(!permuted, sizes_[t], sharding_size);
    };
    int preferred = non_scalar_[0], other = non_scalar_[1];
    if (preference(preferred) < preference(other)) std::swap(preferred, other);
    AxesPerFactor result(index_.num_factors);
    AxisList used;
    for (int f = 0; f < index_.num_factors; ++f)
      if (const FactorSharding* sharding = projection_.find(preferred, f)) {
        result[f] = list_of(sharding->axes);
        used.insert(used.end(), result[f].begin(), result[f].end());
      }
    for (int f = 0; f < index_.num_factors; ++f) {
      if (projection_.find(preferred, f) || !projection_.find(other, f)) continue;
      result[f] = list_of(projection_.find(other, f)->axes);
      truncate_to_free(result[f], used);
    }
    return result;
  }

  std::vector<Candidate> candidates() const {
    std::vector<Candidate> list;
    for (const RuleIndex::Entry& entry : index_.entries) {
      const FactorSharding* sharding = projection_.find(entry.tensor, entry.factor);
      if (!sharding) continue;
      AxisList axes = list_of(sharding->axes);
      for (; !axes.empty(); axes.pop_back()) {
        const bool known = std::any_of(list.begin(), list.end(), [&](const Candidate& c) {
          return c.factor == entry.factor && c.axes == axes;
        });
        if (!known) list.push_back({entry.factor, axes, 0, total_size(axes)});
      }
    }
    for (int t = 0; t < index_.num_tensors; ++t)
      for (Candidate& candidate : list) {
        const FactorSharding* sharding = projection_.find(t, candidate.factor);
        if (!sharding) continue;
        const AxisList axes = list_of(sharding->axes);
        const bool behind = axes == candidate.axes || is_strict_prefix(candidate.axes, axes);
        if (behind) candidate.elements += sizes_[t];
      }
    return list;
  }

  static int precedence(FactorKind kind) {
    switch (kind) {
      case FactorKind::PassThrough:
        return 3;
      case FactorKind::Reduction:
        return 2;
      case FactorKind::Permutation:
        return 1;
      case FactorKind::NeedReplication:
        return 0;
    }
    return 0;
  }

  bool names_less(const AxisList& a, const AxisList& b) const {
    if (a.size() != b.size()) return a.size() < b.size();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      return std::make_tuple(mesh_.axes[a[i].axis].name, a[i].pre, a[i].size) <
             std::make_tuple(mesh_.axes[b[i].axis].name, b[i].pre, b[i].size);
    }
    return false;
  }

  bool worse(const Candidate& a, const Candidate& b) const {
    auto key = [&](const Candidate& c) {
      return std::make_tuple(c.elements, precedence(rule_.factors[c.factor].kind), c.sharding_size,
                             c.factor);
    };
    if (key(a) != key(b)) return key(a) < key(b);
    return names_less(a.axes, b.axes);
  }

  AxesPerFactor greedy() const {
    AxesPerFactor result(index_.num_factors);
    // A factor waits until those before it in a dimension are fully sharded: else it would be
    // strided.
    std::vector<std::set<int>> waits_for(index_.num_factors);
    for (int t = 0; t < index_.num_tensors; ++t)
      for (const DimFactors& dim : rule_.tensor(t))
        for (size_t i = 1; i < dim.size(); ++i) waits_for[dim[i]].insert(dim[i - 1]);
    std::vector<Candidate> list = candidates();
    while (!list.empty()) {
      const Candidate* best = nullptr;
      for (const Candidate& candidate : list)
        if (waits_for[candidate.factor].empty() && (!best || worse(*best, candidate)))
          best = &candidate;
      if (!best) break;
      const Candidate picked = *best;
      result[picked.factor] = picked.axes;
      if (total_size(picked.axes) == rule_.factors[picked.factor].size)
        for (auto& factors : waits_for) factors.erase(picked.factor);
      std::vector<Candidate> left;
      for (Candidate& candidate : list) {
        if (candidate.factor == picked.factor) {
          if (!is_strict_prefix(picked.axes, candidate.axes)) continue;
          candidate.sharding_size = total_size(candidate.axes) / total_size(picked.axes);
        } else if (truncate_to_free(candidate.axes, picked.axes)) {
          const AxisList& has = result[candidate.factor];
          if (candidate.axes == has) continue;
          candidate.sharding_size = total_size(candidate.axes) / total_size(has);
        } else {
          candidate.sharding_size = total_size(candidate.axes);
        }
        left.push_back(std::move(candidate));
      }
      list = std::move(left);
    }
    return result;
  }

  bool in_all_tensors(int factor) const {
    return std::all_of(non_scalar_.begin(), non_scalar_.end(),
                       [&](int t) { return index_.find(t, factor) >= 0; });
  }

  void hand_to_batching(AxesPerFactor& axes) const {
    for (int f = 0; f < index_.num_factors; ++f) {
      if (rule_.factors[f].kind != FactorKind::NeedReplication) continue;
      const AxisList homeless = std::exchange(axes[f], {});
      if (!in_all_tensors(f)) continue;
      size_t next = 0;
      for (int b = 0; b < index_.num_factors && next < homeless.size(); ++b) {
        const Factor& batching = rule_.factors[b];
        if (batching.kind != FactorKind::PassThrough || !in_all_tensors(b)) continue;
        const int64_t shards = total_size(axes[b]);
        if (batching.size == 0 || batching.size % shards != 0) continue;
        int64_t room = batching.size / shards;
        while (next < homeless.size() && room % homeless[next].size == 0) {
          room /= homeless[next].size;
          append_axis(axes[b], homeless[next++]);
        }
      }
    }
  }

  const Projection& projection_;
  const RuleIndex& index_;
  const OpShardingRule& rule_;
  const Mesh& mesh_;
  const std::vector<int64_t>& sizes_;
  std::vector<int> non_scalar_;
};

}  // namespace

AxesPerFactor find_common_axes(const Projection& projection, const Mesh& mesh,
                               const std::vector<int64_t>& tensor_sizes) {
  return CommonAxes(projection, mesh, tensor_sizes).find();
}

}  // namespace cleave
