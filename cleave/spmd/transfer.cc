#include "cleave/spmd/transfer.h"

#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"

namespace cleave {
namespace {

// The position with coordinate 0 along `axes`.
int64_t strip(const AxisList& axes, const Mesh& mesh, int64_t position) {
  for (const AxisRef& ref : axes) {
    int64_t stride = mesh.axes[ref.axis].size / ref.next_pre();
    for (size_t a = ref.axis + 1; a < mesh.axes.size(); ++a) stride *= mesh.axes[a].size;
    position -= coordinate(ref, mesh, position) * stride;
  }
  return position;
}

struct Overlap {
  Shape begin, size;
  bool empty = false;
};

Overlap overlap_of(const ShardSlice& a, const ShardSlice& b) {
  Overlap result{Shape(a.offset.size()), Shape(a.offset.size()), false};
  for (size_t d = 0; d < a.offset.size(); ++d) {
    result.begin[d] = std::max(a.offset[d], b.offset[d]);
    result.size[d] = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]) - result.begin[d];
    if (result.size[d] <= 0) result.empty = true;
  }
  return result;
}

Shape minus(Shape a, const Shape& b) {
  for (size_t d = 0; d < a.size(); ++d) a[d] -= b[d];
  return a;
}

// Everything about a change of layout that is the same on all devices.
struct Change {
  const Layout& from;
  const Layout& to;
  const Mesh& mesh;  // of `from`
  AxisList reduced;  // axes that this step completes
  AxisList created;  // axes along which the result is newly partial
  AxisList padded;   // those among them that sharded the source: each device keeps its shard
  AxisList moved;    // axes along which the sender may differ from the receiver
};

Change change_of(const Layout& from, const Layout& to) {
  Change change{from, to, *from.spec.mesh, {}, {}, {}, {}};
  const bool same_mesh = from.spec.mesh->same_devices(*to.spec.mesh);
  const bool same_op = same_mesh && from.spec.partial_op == to.spec.partial_op;
  change.reduced = same_op ? without(from.spec.partial, to.spec.partial) : from.spec.partial;
  change.created = same_op ? without(to.spec.partial, from.spec.partial) : to.spec.partial;
  for (const DimSpec& dim : from.spec.dims)
    change.moved.insert(change.moved.end(), dim.axes.begin(), dim.axes.end());
  if (same_mesh && to.spec.partial_op != ReduceOp::Avg)
    change.padded = intersection(change.created, change.moved);
  change.created = without(change.created, change.padded);
  change.moved = without(change.moved, change.padded);
  change.moved.insert(change.moved.end(), change.reduced.begin(), change.reduced.end());
  return change;
}

// A device that may send to `device` or get from it, with what it has and what it is to have.
struct Member {
  int64_t device;
  ShardSlice source, target;
};

std::vector<Member> members_of(const Change& change, const Shape& shape, int64_t device) {
  auto stripped = [&](int64_t d) {
    return strip(change.moved, change.mesh, change.mesh.position_of(d));
  };
  std::vector<Member> members;
  const int64_t own = stripped(device), devices = change.mesh.num_devices();
  for (int64_t d = 0; d < devices; ++d)
    if (stripped(d) == own)
      members.push_back({d, change.from.box(shape, d), change.to.box(shape, d)});
  return members;
}

size_t place_of(int64_t device, const std::vector<Member>& members) {
  const auto it = std::find_if(members.begin(), members.end(),
                               [&](const Member& member) { return member.device == device; });
  return static_cast<size_t>(it - members.begin());
}

bool meet(const ShardSlice& a, const ShardSlice& b) {
  for (size_t d = 0; d < a.offset.size(); ++d)
    if (std::max(a.offset[d], b.offset[d]) >=
        std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]))
      return false;
  return true;
}

// The devices that are linked to a member by what is sent, directly or through others; in order.
std::vector<int64_t> connected(const std::vector<Member>& members, size_t self) {
  std::vector<size_t> reached{self}, others(members.size());
  std::iota(others.begin(), others.end(), 0);
  others.erase(others.begin() + static_cast<int64_t>(self));
  for (size_t at = 0; at < reached.size(); ++at) {
    const Member& from = members[reached[at]];
    std::erase_if(others, [&](size_t other) {
      const bool linked =
          meet(from.source, members[other].target) || meet(members[other].source, from.target);
      if (linked) reached.push_back(other);
      return linked;
    });
  }
  std::vector<int64_t> devices;
  for (size_t member : reached) devices.push_back(members[member].device);
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace

ShardSlice Layout::box(const Shape& shape, int64_t device) const {
  if (boxes) return (*boxes)[device];
  ShardSlice slice{Shape(shape.size()), shape};
  if (!spec.mesh || spec.mesh->axes.empty()) return slice;
  const int64_t position = spec.mesh->position_of(device);
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    const AxisList& axes = spec.dims[d].axes;
    if (axes.empty()) continue;
    const Chunk chunk =
        chunk_of(shape[d], total_size(axes), coordinate(axes, *spec.mesh, position));
    slice.offset[d] = chunk.offset;
    slice.size[d] = chunk.size;
  }
  return slice;
}

AxisList split_at(const AxisList& axes, const AxisList& others) {
  AxisList result;
  for (const AxisRef& ref : axes) {
    std::vector<int64_t> cuts = {ref.pre, ref.next_pre()};
    for (const AxisRef& other : others) {
      if (other.axis != ref.axis) continue;
      for (int64_t cut : {int64_t{other.pre}, other.next_pre()})
        if (cut > ref.pre && cut < ref.next_pre()) cuts.push_back(cut);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (cuts[i + 1] % cuts[i] != 0)
        throw_user("sub-axes of one mesh axis do not fit together: they cut it at {} and {}",
                   cuts[i], cuts[i + 1]);
      result.push_back(
          {ref.axis, static_cast<int32_t>(cuts[i]), static_cast<int32_t>(cuts[i + 1] / cuts[i])});
    }
  }
  return result;
}

AxisList without(const AxisList& axes, const AxisList& others) {
  AxisList result;
  for (const AxisRef& ref : split_at(axes, others))
    if (!overlaps_any(ref, others)) append_axis(result, ref);
  return result;
}

AxisList intersection(const AxisList& axes, const AxisList& others) {
  AxisList result;
  for (const AxisRef& ref : split_at(axes, others))
    if (overlaps_any(ref, others)) append_axis(result, ref);
  return result;
}

Transfer plan_transfer(const Layout& from, const Layout& to, const Shape& shape, DType dtype,
                       int64_t device) {
  Transfer plan;
  const ShardSlice mine = from.box(shape, device);
  const ShardSlice wanted = to.box(shape, device);
  plan.shape = wanted.size;
  if (!from.spec.mesh || from.spec.mesh->axes.empty()) {
    plan.receives.push_back(
        {device, 0, Shape(wanted.size.size()), wanted.size, minus(wanted.offset, mine.offset)});
    return plan;
  }
  const Change change = change_of(from, to);
  const Mesh& mesh = change.mesh;
  plan.parts = total_size(change.reduced);
  plan.reduce = from.spec.partial_op;
  plan.fill = to.spec.partial_op;
  const bool differs = plan.fill == ReduceOp::Sum || plan.fill == ReduceOp::Prod;
  plan.is_identity =
      !change.created.empty() && differs &&
      coordinate(change.created, *to.spec.mesh, to.spec.mesh->position_of(device)) != 0;

  plan.pads = !change.padded.empty();

  const std::vector<Member> members = members_of(change, shape, device);
  const size_t self = place_of(device, members);
  for (const Member& sender : members) {
    const Overlap part = overlap_of(sender.source, wanted);
    if (part.empty) continue;
    const int64_t index = coordinate(change.reduced, mesh, mesh.position_of(sender.device));
    plan.receives.push_back({sender.device, index, minus(part.begin, wanted.offset), part.size,
                             minus(part.begin, sender.source.offset)});
    if (sender.device != device) plan.bytes_received += num_elements(part.size) * byte_size(dtype);
  }
  for (const Member& receiver : members) {
    const Overlap part = overlap_of(mine, receiver.target);
    if (part.empty || receiver.device == device) continue;
    plan.sends.push_back({receiver.device, 0, minus(part.begin, mine.offset), part.size, {}});
  }
  // Where a reduction meets an empty shard, its devices still agree on the group.
  plan.group = connected(members, self);
  if (plan.group.size() == 1) plan.group.clear();
  bool same_boxes = !from.boxes && !to.boxes && to.spec.mesh->same_devices(mesh);
  for (size_t d = 0; same_boxes && d < from.spec.dims.size(); ++d)
    same_boxes = from.spec.dims[d].axes == to.spec.dims[d].axes;
  plan.is_all_reduce =
      plan.parts > 1 && change.created.empty() && same_boxes && !plan.group.empty();
  if (plan.is_all_reduce)
    std::sort(plan.group.begin(), plan.group.end(), [&](int64_t a, int64_t b) {
      return coordinate(change.reduced, mesh, mesh.position_of(a)) <
             coordinate(change.reduced, mesh, mesh.position_of(b));
    });
  return plan;
}

}  // namespace cleave
