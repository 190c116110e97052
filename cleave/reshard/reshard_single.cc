#include "cleave/reshard/reshard_single.h"

#include <algorithm>
#include <optional>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"

namespace cleave {
namespace {

int64_t bytes_of(const ShardingSpec& spec, const Shape& shape, DType dtype) {
  const Shape& held = spec.mesh->is_maximal() ? shape : local_shape(spec, shape);
  return num_elements(held) * byte_size(dtype);
}

// Layouts of the mesh through which the tensor may go: that of `spec` with its sums completed, and
// those that also cut one dimension by all the axes that it does not use.
std::vector<ShardingSpec> layouts_on_the_way(const ShardingSpec& spec) {
  ShardingSpec complete = spec;
  complete.partial.clear();
  complete.replicated.clear();
  AxisList used;
  for (const DimSpec& dim : complete.dims)
    used.insert(used.end(), dim.axes.begin(), dim.axes.end());
  AxisList free;
  for (size_t i = 0; i < spec.mesh->axes.size(); ++i) {
    const AxisRef axis = whole_axis(*spec.mesh, static_cast<int>(i));
    if (axis.size > 1 && !overlaps_any(axis, used)) free.push_back(axis);
  }
  std::vector<ShardingSpec> layouts = {complete};
  for (size_t d = 0; d < complete.rank() && !free.empty(); ++d) {
    ShardingSpec cut = complete;
    cut.dims[d].axes.insert(cut.dims[d].axes.end(), free.begin(), free.end());
    layouts.push_back(std::move(cut));
  }
  return layouts;
}

}  // namespace

ReshardPlan plan_single_device(
    const ShardingSpec& from, const ShardingSpec& to, const Shape& shape, DType dtype,
    const MachineProfile& profile, const ReshardOptions& options,
    const std::function<ReshardPlan(const ShardingSpec&, const ShardingSpec&)>& between) {
  const bool scatters = from.mesh->is_maximal(), gathers = to.mesh->is_maximal();
  if (scatters && gathers && from.mesh->device_ids == to.mesh->device_ids) {
    ReshardPlan nothing;
    nothing.peak_bytes = bytes_of(from, shape, dtype);
    return nothing;
  }
  std::optional<ReshardPlan> best;
  auto consider = [&](ReshardPlan plan, const ReshardStep& move, const ShardingSpec& before) {
    plan.seconds += move.seconds;
    plan.bytes += move.bytes;
    plan.peak_bytes = std::max(plan.peak_bytes,
                               bytes_of(before, shape, dtype) + bytes_of(move.after, shape, dtype));
    plan.steps.insert(scatters ? plan.steps.begin() : plan.steps.end(), move);
    if (options.memory && plan.peak_bytes > *options.memory) return;
    if (!best || plan.seconds < best->seconds) best = std::move(plan);
  };
  // The part on the mesh; nothing where it takes too much memory.
  auto on_mesh = [&](const ShardingSpec& a, const ShardingSpec& b) -> std::optional<ReshardPlan> {
    if (a.same_layout(b)) return ReshardPlan{};
    try {
      return between(a, b);
    } catch (const UserError&) {
      return std::nullopt;
    }
  };
  if (scatters && gathers) {
    consider({}, make_step(StepKind::Gather, from, to, shape, dtype, profile), from);
  } else if (scatters) {
    for (const ShardingSpec& layout : layouts_on_the_way(to))
      if (auto rest = on_mesh(layout, to)) {
        const ShardingSpec& after = rest->steps.empty() ? to : layout;
        consider(std::move(*rest), make_step(StepKind::Scatter, from, after, shape, dtype, profile),
                 from);
      }
  } else {
    for (const ShardingSpec& layout : layouts_on_the_way(from))
      if (auto rest = on_mesh(from, layout))
        consider(std::move(*rest), make_step(StepKind::Gather, layout, to, shape, dtype, profile),
                 layout);
  }
  if (!best)
    throw_user(
        "reshard of <{}x{}> from {} to {}: no way stays within {} bytes on a device; one of "
        "them holds the whole tensor",
        to_string(shape), name(dtype), to_string_with_mesh(from), to_string_with_mesh(to),
        options.memory.value_or(0));
  return std::move(*best);
}

}  // namespace cleave
