#include "cleave/rules/propagate/spec_table.h"

#include <utility>

namespace cleave {
namespace {

size_t hash_of(const ShardingSpec& spec) {
  size_t hash = spec.dims.size();
  auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29); };
  auto mix_axes = [&](const AxisList& axes) {
    for (const AxisRef& ref : axes)
      mix(static_cast<uint64_t>(ref.axis) << 48 ^ static_cast<uint64_t>(ref.pre) << 24 ^
          static_cast<uint64_t>(ref.size));
    mix(0xFF);
  };
  for (const DimSpec& dim : spec.dims) {
    mix_axes(dim.axes);
    mix(dim.open ? 2 : 1);
  }
  mix_axes(spec.replicated);
  mix_axes(spec.partial);
  return hash;
}

}  // namespace

bool same_mesh(const MeshPtr& a, const MeshPtr& b) {
  return a == b || (a && b && a->same_devices(*b));
}

int32_t SpecTable::intern(ShardingSpec spec) {
  const size_t hash = hash_of(spec);
  auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const ShardingSpec& known = specs_[it->second];
    if (known.dims == spec.dims && known.replicated == spec.replicated &&
        known.partial == spec.partial && known.partial_op == spec.partial_op &&
        (known.mesh == spec.mesh || (known.mesh && spec.mesh && *known.mesh == *spec.mesh)))
      return it->second;
  }
  const auto id = static_cast<int32_t>(specs_.size());
  specs_.push_back(std::move(spec));
  by_hash_.emplace(hash, id);
  return id;
}

}  // namespace cleave
