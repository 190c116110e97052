#include "cleave/reshard/cross_mesh.h"

#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"

namespace cleave {
namespace {

int64_t overlap(const ShardSlice& a, const ShardSlice& b) {
  int64_t elements = 1;
  for (size_t d = 0; d < a.size.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    elements *= std::max<int64_t>(0, end - begin);
  }
  return elements;
}

// Positions that hold the same box, by box.
std::map<Shape, std::vector<int64_t>> holders(const ShardingSpec& spec, const Shape& shape) {
  std::map<Shape, std::vector<int64_t>> result;
  for (int64_t p = 0; p < spec.mesh->num_devices(); ++p) {
    const ShardSlice slice = shard_slice(spec, shape, p);
    if (num_elements(slice.size) > 0) result[slice.offset].push_back(p);
  }
  return result;
}

bool uses(const ShardingSpec& spec, int axis) {
  for (const DimSpec& dim : spec.dims)
    for (const AxisRef& ref : dim.axes)
      if (ref.axis == axis) return true;
  return false;
}

void add_landings(const ShardingSpec& spec, int axis, const Shape& shape,
                  std::vector<ShardingSpec>& landings) {
  const Mesh& mesh = *spec.mesh;
  if (axis == static_cast<int>(mesh.axes.size())) {
    landings.push_back(spec);
    return;
  }
  add_landings(spec, axis + 1, shape, landings);
  if (uses(spec, axis) || mesh.axes[axis].size == 1) return;
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    ShardingSpec more = spec;
    more.dims[d].axes.push_back(whole_axis(mesh, axis));
    if (shape[d] % total_size(more.dims[d].axes) == 0)
      add_landings(more, axis + 1, shape, landings);
  }
}

}  // namespace

CrossMeshPlan cross_mesh_by(const ShardingSpec& landing, const ShardingSpec& from,
                            const ShardingSpec& to, const Shape& shape, DType dtype,
                            const MeshLink& link, const MachineProfile& profile) {
  if (from.is_partial() || to.is_partial())
    throw_user("a tensor with a pending reduction can't cross to another mesh; complete it first");
  CrossMeshPlan plan;
  plan.landing = landing;
  plan.sent.assign(from.mesh->num_devices(), 0);
  plan.received.assign(to.mesh->num_devices(), 0);
  const int64_t item = byte_size(dtype);
  const auto boxes = holders(from, shape);
  int64_t largest_part = 0;  // of a box, if its replicas share it
  for (const auto& [offset, replicas] : boxes) {
    const ShardSlice box = shard_slice(from, shape, replicas[0]);
    const auto count = static_cast<int64_t>(replicas.size());
    largest_part = std::max(largest_part, ceil_div(num_elements(box.size) * item, count));
    int64_t turn = 0;
    for (int64_t r = 0; r < to.mesh->num_devices(); ++r) {
      const int64_t bytes = overlap(box, shard_slice(landing, shape, r)) * item;
      if (bytes == 0) continue;
      plan.sent[replicas[turn++ % count]] += bytes;
      plan.received[r] += bytes;
    }
  }
  const auto most = [](const std::vector<int64_t>& bytes) {
    return static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
  };
  const double latency = link.latency_us * 1e-6;
  const double out = link.sender_gbps * 1e9, in = link.receiver_gbps * 1e9;
  plan.send_seconds = latency + std::max(most(plan.sent) / out, most(plan.received) / in);
  plan.after = plan_reshard(landing, to, shape, dtype, profile);
  plan.seconds = plan.send_seconds + plan.after.seconds;
  const auto all = static_cast<double>(num_elements(shape) * item);
  plan.lower_bound = latency + std::max(static_cast<double>(largest_part) / out,
                                        all / static_cast<double>(to.mesh->num_devices()) / in);
  return plan;
}

CrossMeshPlan plan_cross_mesh(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                              DType dtype, const MeshLink& link, const MachineProfile& profile) {
  ShardingSpec closed = to;
  for (DimSpec& dim : closed.dims) dim = {dim.axes, false, std::nullopt};
  closed.replicated.clear();
  std::vector<ShardingSpec> landings;
  add_landings(closed, 0, shape, landings);
  CrossMeshPlan best = cross_mesh_by(landings[0], from, closed, shape, dtype, link, profile);
  for (size_t i = 1; i < landings.size(); ++i) {
    CrossMeshPlan plan = cross_mesh_by(landings[i], from, closed, shape, dtype, link, profile);
    if (plan.seconds < best.seconds) best = std::move(plan);
  }
  return best;
}

}  // namespace cleave
