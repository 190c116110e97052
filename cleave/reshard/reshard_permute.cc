#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/reshard/reshard.h"
#include "cleave/reshard/reshard_space.h"

namespace cleave {
namespace {

std::vector<int64_t> shard_index(const ShardingSpec& spec, int64_t position) {
  std::vector<int64_t> index;
  for (const DimSpec& dim : spec.dims) index.push_back(coordinate(dim.axes, *spec.mesh, position));
  index.push_back(coordinate(spec.partial, *spec.mesh, position));
  return index;
}

}  // namespace

std::vector<int64_t> permute_sources(const ShardingSpec& before, const ShardingSpec& after) {
  const int64_t devices = before.mesh->num_devices();
  internal_check(devices == after.mesh->num_devices(), "permute between meshes of other sizes");
  const bool shared = reshard::can_share_atoms(before, after);
  // Along axes that keep their place a shard stays where it is.
  AxisList fixed;
  if (shared) {
    const AxisList changed = reshard::changed_axes(before, after);
    for (const AxisRef& atom : reshard::atoms_of(*before.mesh, {&before, &after}))
      if (!overlaps_any(atom, changed)) fixed.push_back(atom);
    for (size_t i = 0; i < before.mesh->axes.size(); ++i) {
      const AxisRef axis = whole_axis(*before.mesh, static_cast<int>(i));
      if (!overlaps_any(axis, changed) && !overlaps_any(axis, fixed)) fixed.push_back(axis);
    }
  }

  struct Waiting {
    std::vector<int64_t> group;
    int64_t device;
    auto operator<=>(const Waiting&) const = default;
  };
  struct Shard {
    std::vector<Waiting> holders, takers;
  };
  std::vector<int64_t> sources(devices, -1);
  std::map<std::vector<int64_t>, Shard> shards;
  for (int64_t device = 0; device < devices; ++device) {
    const int64_t old_position = before.mesh->position_of(device);
    const int64_t new_position = after.mesh->position_of(device);
    auto held = shard_index(before, old_position);
    auto needed = shard_index(after, new_position);
    if (held == needed) {
      sources[device] = device;
      continue;
    }
    std::vector<int64_t> group;
    for (const AxisRef& axis : fixed) group.push_back(coordinate(axis, *before.mesh, old_position));
    shards[std::move(held)].holders.push_back({group, device});
    shards[std::move(needed)].takers.push_back({group, device});
  }
  for (auto& [index, shard] : shards) {
    internal_check(shard.holders.size() == shard.takers.size(), "permute of unequal shards");
    std::sort(shard.holders.begin(), shard.holders.end());
    std::sort(shard.takers.begin(), shard.takers.end());
    for (size_t i = 0; i < shard.takers.size(); ++i)
      sources[shard.takers[i].device] = shard.holders[i].device;
  }
  return sources;
}

}  // namespace cleave
