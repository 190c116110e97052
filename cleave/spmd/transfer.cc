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

// A device that may send to others of its set or get from them, with what it has and what it is to
// have.
struct Member {
  int64_t device;
  ShardSlice source, target;
};

constexpr uint32_t kNoGroup = UINT32_MAX;

// The devices that what is sent links to each other, directly or through others.
struct LinkedGroup {
  SharedList<int64_t> devices;
  bool same_target = true;               // of all of them
  SharedList<Transfer::Piece> gathered;  // what each receives, where they receive the same
  bool is_gathered = false;              // `gathered` is made
};

// Devices that agree along the axes that do not move.
struct MemberSet {
  std::vector<Member> members;      // by device
  std::vector<uint32_t> group_of;   // by member: among `groups`
  std::vector<LinkedGroup> groups;  // those that were asked for
};

// Positions that agree with one along all axes but these, in any order.
std::vector<int64_t> positions_along(const AxisList& axes, const Mesh& mesh, int64_t position) {
  std::vector<int64_t> positions{strip(axes, mesh, position)};
  for (const AxisRef& ref : axes) {
    int64_t stride = mesh.axes[ref.axis].size / ref.next_pre();
    for (size_t a = ref.axis + 1; a < mesh.axes.size(); ++a) stride *= mesh.axes[a].size;
    const size_t count = positions.size();
    for (int64_t i = 1; i < ref.size; ++i)
      for (size_t k = 0; k < count; ++k) positions.push_back(positions[k] + i * stride);
  }
  return positions;
}

bool meet(const ShardSlice& a, const ShardSlice& b) {
  for (size_t d = 0; d < a.offset.size(); ++d)
    if (std::max(a.offset[d], b.offset[d]) >=
        std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]))
      return false;
  return true;
}

// The members that are linked to one by what is sent, directly or through others; in order. Those
// of groups that are known are not among them.
std::vector<size_t> linked_to(const MemberSet& set, size_t self) {
  std::vector<size_t> reached{self}, others;
  for (size_t i = 0; i < set.members.size(); ++i)
    if (i != self && set.group_of[i] == kNoGroup) others.push_back(i);
  for (size_t at = 0; at < reached.size(); ++at) {
    const Member& from = set.members[reached[at]];
    std::erase_if(others, [&](size_t other) {
      const bool linked = meet(from.source, set.members[other].target) ||
                          meet(set.members[other].source, from.target);
      if (linked) reached.push_back(other);
      return linked;
    });
  }
  std::sort(reached.begin(), reached.end());
  return reached;
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

size_t Transfer::place_of(int64_t member) const {
  // Groups of an all_reduce are ordered by coordinate, all others by device.
  const auto it = is_all_reduce ? std::find(group.begin(), group.end(), member)
                                : std::lower_bound(group.begin(), group.end(), member);
  return static_cast<size_t>(it - group.begin());
}

std::vector<Transfer::Piece> Transfer::sends() const {
  if (!is_all_gather) return sent;
  const auto own = std::lower_bound(receives.begin(), receives.end(), device,
                                    [](const Piece& piece, int64_t d) { return piece.device < d; });
  std::vector<Piece> pieces;
  if (own == receives.end() || own->device != device) return pieces;
  for (int64_t member : group)
    if (member != device) pieces.push_back({member, 0, own->source, own->size, {}});
  return pieces;
}

struct TransferPlanner::Impl {
  const Layout& from;
  const Layout& to;
  Shape shape;
  DType dtype;
  std::optional<Change> change;       // nothing where there is no mesh
  bool same_boxes = false;            // every device keeps the place of its elements
  std::map<int64_t, MemberSet> sets;  // by the position with coordinate 0 along what moves

  Impl(const Layout& from, const Layout& to, Shape shape, DType dtype)
      : from(from), to(to), shape(std::move(shape)), dtype(dtype) {
    if (!from.spec.mesh || from.spec.mesh->axes.empty()) return;
    change.emplace(change_of(from, to));
    same_boxes = !from.boxes && !to.boxes && to.spec.mesh->same_devices(change->mesh);
    for (size_t d = 0; same_boxes && d < from.spec.dims.size(); ++d)
      same_boxes = from.spec.dims[d].axes == to.spec.dims[d].axes;
  }

  bool reduces_in_place() const {
    return total_size(change->reduced) > 1 && change->created.empty() && same_boxes;
  }
  bool only_moves() const {
    return change->reduced.empty() && change->created.empty() && change->padded.empty() &&
           !from.boxes && to.spec.mesh->same_devices(change->mesh);
  }

  MemberSet& set_of(int64_t device) {
    const Mesh& mesh = change->mesh;
    const int64_t position = mesh.position_of(device);
    const auto [it, fresh] = sets.try_emplace(strip(change->moved, mesh, position));
    MemberSet& set = it->second;
    if (!fresh) return set;
    std::vector<int64_t> devices;
    for (int64_t other : positions_along(change->moved, mesh, position))
      devices.push_back(mesh.device_at(other));
    std::sort(devices.begin(), devices.end());
    for (int64_t other : devices)
      set.members.push_back({other, from.box(shape, other), to.box(shape, other)});
    set.group_of.assign(set.members.size(), kNoGroup);
    return set;
  }

  LinkedGroup& group_of(MemberSet& set, size_t self) {
    if (set.group_of[self] != kNoGroup) return set.groups[set.group_of[self]];
    LinkedGroup group;
    std::vector<int64_t> devices;
    const ShardSlice& target = set.members[self].target;
    for (size_t member : linked_to(set, self)) {
      const ShardSlice& other = set.members[member].target;
      group.same_target &= other.offset == target.offset && other.size == target.size;
      devices.push_back(set.members[member].device);
      set.group_of[member] = static_cast<uint32_t>(set.groups.size());
    }
    if (reduces_in_place()) {
      const Mesh& mesh = change->mesh;
      std::vector<std::pair<int64_t, int64_t>> ordered;
      for (int64_t device : devices)
        ordered.emplace_back(coordinate(change->reduced, mesh, mesh.position_of(device)), device);
      std::sort(ordered.begin(), ordered.end());
      for (size_t i = 0; i < devices.size(); ++i) devices[i] = ordered[i].second;
    }
    // Where a reduction meets an empty shard, its devices still agree on the group.
    if (devices.size() > 1) group.devices = std::move(devices);
    set.groups.push_back(std::move(group));
    return set.groups.back();
  }

  std::vector<Transfer::Piece> received(const MemberSet& set, const ShardSlice& wanted) const {
    const Mesh& mesh = change->mesh;
    std::vector<Transfer::Piece> pieces;
    for (const Member& sender : set.members) {
      if (!meet(sender.source, wanted)) continue;
      const Overlap part = overlap_of(sender.source, wanted);
      const int64_t index = coordinate(change->reduced, mesh, mesh.position_of(sender.device));
      pieces.push_back({sender.device, index, minus(part.begin, wanted.offset), part.size,
                        minus(part.begin, sender.source.offset)});
    }
    return pieces;
  }
};

TransferPlanner::TransferPlanner(const Layout& from, const Layout& to, Shape shape, DType dtype)
    : impl_(std::make_unique<Impl>(from, to, std::move(shape), dtype)) {}
TransferPlanner::TransferPlanner(TransferPlanner&&) noexcept = default;
TransferPlanner::~TransferPlanner() = default;

Transfer TransferPlanner::plan(int64_t device) {
  Impl& p = *impl_;
  Transfer plan;
  plan.device = device;
  const ShardSlice mine = p.from.box(p.shape, device);
  const ShardSlice wanted = p.to.box(p.shape, device);
  plan.shape = wanted.size;
  if (!p.change) {
    plan.receives = {
        {{device, 0, Shape(wanted.size.size()), wanted.size, minus(wanted.offset, mine.offset)}}};
    return plan;
  }
  const Change& change = *p.change;
  plan.parts = total_size(change.reduced);
  plan.reduce = p.from.spec.partial_op;
  plan.fill = p.to.spec.partial_op;
  const bool differs = plan.fill == ReduceOp::Sum || plan.fill == ReduceOp::Prod;
  const Mesh& target_mesh = *p.to.spec.mesh;
  plan.is_identity = !change.created.empty() && differs &&
                     coordinate(change.created, target_mesh, target_mesh.position_of(device)) != 0;
  plan.pads = !change.padded.empty();

  MemberSet& set = p.set_of(device);
  const auto place = std::lower_bound(
      set.members.begin(), set.members.end(), device,
      [](const Member& member, int64_t wanted_device) { return member.device < wanted_device; });
  LinkedGroup& group = p.group_of(set, static_cast<size_t>(place - set.members.begin()));
  plan.group = group.devices;
  plan.is_all_reduce = p.reduces_in_place() && !plan.group.empty();
  plan.is_all_gather = p.only_moves() && group.same_target && !plan.group.empty();
  if (plan.is_all_reduce) {
    plan.bytes_received =
        static_cast<int64_t>(plan.group.size() - 1) * num_elements(mine.size) * byte_size(p.dtype);
    return plan;
  }
  if (plan.is_all_gather) {
    if (!group.is_gathered) group.gathered = p.received(set, wanted);
    group.is_gathered = true;
    plan.receives = group.gathered;
    Overlap own = overlap_of(mine, wanted);
    const int64_t kept = own.empty ? 0 : num_elements(own.size);
    plan.bytes_received = (num_elements(wanted.size) - kept) * byte_size(p.dtype);
    return plan;
  }
  plan.receives = p.received(set, wanted);
  for (const Transfer::Piece& piece : plan.receives)
    if (piece.device != device)
      plan.bytes_received += num_elements(piece.size) * byte_size(p.dtype);
  for (const Member& receiver : set.members) {
    if (receiver.device == device || !meet(mine, receiver.target)) continue;
    const Overlap part = overlap_of(mine, receiver.target);
    plan.sent.push_back({receiver.device, 0, minus(part.begin, mine.offset), part.size, {}});
  }
  return plan;
}

Transfer plan_transfer(const Layout& from, const Layout& to, const Shape& shape, DType dtype,
                       int64_t device) {
  return TransferPlanner(from, to, shape, dtype).plan(device);
}

}  // namespace cleave
