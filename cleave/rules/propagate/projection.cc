#include "cleave/rules/propagate/projection.h"

#include <numeric>

namespace cleave {
namespace {

void append_merging(Axes& axes, const AxisRef& ref) {
  if (!axes.empty() && can_merge(axes.back(), ref)) {
    axes.back() = merge(axes.back(), ref);
  } else {
    axes.push_back(ref);
  }
}

// What is left of a dimension's axes while its factors are filled.
class Remaining {
 public:
  explicit Remaining(std::span<const AxisRef> axes) : axes_(axes) {
    if (!axes_.empty()) current_ = axes_.front();
  }

  bool empty() const { return axes_.empty(); }
  int64_t size() const { return current_.size; }
  // The next part of this size, which divides that of the current axis.
  AxisRef take(int64_t size) {
    AxisRef part = current_;
    part.size = static_cast<int32_t>(size);
    if (size == current_.size) {
      axes_ = axes_.subspan(1);
      if (!axes_.empty()) current_ = axes_.front();
    } else {
      current_.pre *= part.size;
      current_.size /= part.size;
    }
    return part;
  }
  void take_all(Axes& into) {
    while (!empty()) append_merging(into, take(current_.size));
  }

 private:
  std::span<const AxisRef> axes_;
  AxisRef current_;
};

void fill_major_factor(FactorSharding& sharding, int64_t factor_size, Remaining& remaining) {
  while (!remaining.empty()) {
    const int64_t part = std::gcd(factor_size, remaining.size());
    if (part == 1 && remaining.size() != 1) break;
    const AxisRef axis = remaining.take(remaining.size() == 1 ? 1 : part);
    factor_size /= axis.size;
    sharding.axes.push_back(axis);
  }
  if (factor_size > 1) remaining.take_all(sharding.overflow);
}

void project_compound(std::span<const RuleIndex::Entry> entries, const OpShardingRule& rule,
                      std::span<const AxisRef> axes, bool closed, FactorSharding* shardings) {
  Remaining remaining(axes);
  bool overflowed = false;
  for (size_t i = 0; i < entries.size(); ++i) {
    FactorSharding& sharding = shardings[i];
    sharding.axes.clear();
    sharding.overflow.clear();
    sharding.minor_most = entries[i].minor_most;
    sharding.closed = closed;
    sharding.present = true;
    if (overflowed) {
      sharding.closed = true;
      for (size_t rest = i + 1; rest < entries.size(); ++rest) shardings[rest].present = false;
      return;
    }
    if (sharding.minor_most) {
      remaining.take_all(sharding.axes);
    } else {
      fill_major_factor(sharding, rule.factors[entries[i].factor].size, remaining);
      overflowed = !sharding.overflow.empty();
    }
  }
}

}  // namespace

void project(const RuleIndex& index, std::span<const ShardingSpec* const> specs,
             Projection& projection) {
  projection.index = &index;
  projection.specs.assign(specs.begin(), specs.end());
  projection.changed.assign(specs.size(), 0);
  if (projection.entries.size() < index.entries.size())
    projection.entries.resize(index.entries.size());
  const std::span<const RuleIndex::Entry> entries = index.entries;
  for (size_t e = 0; e < entries.size();) {
    const RuleIndex::Entry& entry = entries[e];
    const ShardingSpec* spec = specs[entry.tensor];
    const DimSpec* dim = spec ? &spec->dims[entry.dim] : nullptr;
    const bool closed = dim && !dim->open;
    FactorSharding& sharding = projection.entries[e];
    if (entry.minor_most) {
      sharding.axes.clear();
      if (dim) sharding.axes.assign(dim->axes.begin(), dim->axes.end());
      sharding.overflow.clear();
      sharding.closed = closed;
      sharding.minor_most = true;
      sharding.present = true;
      ++e;
      continue;
    }
    size_t end = e + 1;
    while (!entries[end - 1].minor_most) ++end;
    project_compound(entries.subspan(e, end - e), *index.rule,
                     dim ? std::span<const AxisRef>(dim->axes) : std::span<const AxisRef>(), closed,
                     &sharding);
    e = end;
  }
}

ShardingSpec to_spec(const Projection& projection, int tensor, const MeshPtr& mesh) {
  const RuleIndex& index = *projection.index;
  ShardingSpec spec;
  spec.mesh = mesh;
  spec.dims.resize(index.rule->tensor(tensor).size());
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    spec.dims[d].open = true;
  }
  int finished_dim = -1;
  for (int e = index.tensor_begin[tensor]; e < index.tensor_begin[tensor + 1]; ++e) {
    const RuleIndex::Entry& entry = index.entries[e];
    const FactorSharding& sharding = projection.entries[e];
    if (entry.dim == finished_dim) continue;
    DimSpec& dim = spec.dims[entry.dim];
    if (sharding.closed) dim.open = false;
    int64_t sharded = 1;
    auto append = [&](const Axes& axes) {
      for (uint32_t i = 0; i < axes.size(); ++i) {
        sharded *= axes[i].size;
        if (i == 0) {
          append_axis(dim.axes, axes[i]);
        } else {
          dim.axes.push_back(axes[i]);
        }
      }
    };
    append(sharding.axes);
    if (!sharding.overflow.empty()) {
      append(sharding.overflow);
      finished_dim = entry.dim;
    } else if (sharded < index.rule->factors[entry.factor].size) {
      finished_dim = entry.dim;
    }
  }
  if (const ShardingSpec* old = projection.specs[tensor]) {
    spec.replicated = old->replicated;
    spec.partial = old->partial;
    spec.partial_op = old->partial_op;
  }
  return spec;
}

Prefix prefix_status(const Axes& a, const Axes& b) {
  if (a.empty()) return b.empty() ? Prefix::Equal : Prefix::Strict;
  if (a.size() > b.size()) return Prefix::No;
  const uint32_t last = a.size() - 1;
  for (uint32_t i = 0; i < last; ++i)
    if (a[i] != b[i]) return Prefix::No;
  if (a.size() == b.size() && a[last] == b[last]) return Prefix::Equal;
  return is_prefix_of(a[last], b[last]) ? Prefix::Strict : Prefix::No;
}

}  // namespace cleave
