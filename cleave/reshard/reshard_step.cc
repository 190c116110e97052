#include <algorithm>
#include <array>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/machine/collective.h"
#include "cleave/reshard/reshard.h"
#include "cleave/reshard/reshard_space.h"

namespace cleave {
namespace {

constexpr std::array<std::string_view, 11> kStepNames = {"all_gather",
                                                         "all_slice",
                                                         "all_to_all",
                                                         "collective_permute",
                                                         "reduce_scatter",
                                                         "all_reduce",
                                                         "replicated_to_unreduced",
                                                         "sharded_to_unreduced",
                                                         "scatter",
                                                         "gather",
                                                         "relabel"};

// What `whole` has beyond its prefix `prefix`; nothing where that is no prefix.
std::optional<AxisList> suffix_beyond(const AxisList& whole, const AxisList& prefix) {
  AxisList rest = whole;
  for (const AxisRef& ref : prefix) {
    AxisRef left = ref;
    while (left.size > 1) {
      if (rest.empty()) return std::nullopt;
      if (is_prefix_of(rest.front(), left)) {
        const int32_t size = rest.front().size;
        left = {left.axis, left.pre * size, left.size / size};
        rest.erase(rest.begin());
      } else if (is_prefix_of(left, rest.front())) {
        rest.front() = {left.axis, left.pre * left.size, rest.front().size / left.size};
        left.size = 1;
      } else {
        return std::nullopt;
      }
    }
    while (!rest.empty() && rest.front().size == 1) rest.erase(rest.begin());
  }
  return rest;
}

// Axes of `a` that are not in `b`, both in mesh order; nothing where b is not part of a.
std::optional<AxisList> difference(const AxisList& a, const AxisList& b) {
  AxisList rest;
  for (AxisRef ref : a) {
    for (const AxisRef& taken : b) {
      if (!overlaps(ref, taken)) continue;
      if (!contains(ref, taken)) return std::nullopt;
      if (auto before = prefix_without_overlap(ref, taken)) rest.push_back(*before);
      auto after = suffix_without_overlap(ref, taken);
      ref = after ? *after : AxisRef{ref.axis, 1, 1};
    }
    if (ref.size > 1) rest.push_back(ref);
  }
  if (total_size(rest) * total_size(b) != total_size(a)) return std::nullopt;
  std::sort(rest.begin(), rest.end());
  merge_neighbours(rest);
  return rest;
}

AxisList sorted_union(const std::vector<AxisList>& lists) {
  AxisList all;
  for (const AxisList& list : lists) all.insert(all.end(), list.begin(), list.end());
  std::erase_if(all, [](const AxisRef& ref) { return ref.size == 1; });
  std::sort(all.begin(), all.end());
  merge_neighbours(all);
  return all;
}

// Axes of one device cut nothing: a step may gain or lose them wherever it likes.
bool has_axes_of_one(const Mesh& mesh) {
  return std::any_of(mesh.axes.begin(), mesh.axes.end(),
                     [](const MeshAxis& axis) { return axis.size == 1; });
}

ShardingSpec without_axes_of_one(ShardingSpec spec) {
  const auto is_one = [](const AxisRef& ref) { return ref.size == 1; };
  for (DimSpec& dim : spec.dims) std::erase_if(dim.axes, is_one);
  std::erase_if(spec.partial, is_one);
  return spec;
}

class StepMaker {
 public:
  StepMaker(StepKind kind, const ShardingSpec& before, const ShardingSpec& after,
            const Shape& shape, DType dtype, const MachineProfile& profile)
      : before_(before), after_(after), shape_(shape), dtype_(dtype), profile_(profile) {
    step_.kind = kind;
    step_.after = after;
    bytes_before_ = local_bytes(before, dtype);
    bytes_after_ = local_bytes(after, dtype);
  }

  ReshardStep make() {
    if (step_.kind == StepKind::Scatter || step_.kind == StepKind::Gather) {
      step_.kind == StepKind::Scatter ? scatter() : gather();
      return std::move(step_);
    }
    if (before_.rank() != shape_.size() || after_.rank() != shape_.size())
      fail("the specs have another rank than the tensor");
    const bool mesh_may_change =
        step_.kind == StepKind::CollectivePermute || step_.kind == StepKind::Relabel;
    if (!mesh_may_change && !before_.mesh->same_devices(*after_.mesh)) fail("the meshes differ");
    switch (step_.kind) {
      case StepKind::AllGather:
        dims_lose();
        check(before_.partial == after_.partial, "partial axes change");
        price(CollectiveKind::AllGather, bytes_after_, lacking(bytes_after_ - bytes_before_));
        break;
      case StepKind::AllSlice:
        dims_gain();
        check(before_.partial == after_.partial, "partial axes change");
        local(bytes_after_);
        break;
      case StepKind::AllToAll:
        moves();
        check(before_.partial == after_.partial, "partial axes change");
        price(CollectiveKind::AllToAll, std::max(bytes_before_, bytes_after_),
              lacking(bytes_after_ - bytes_after_ / total_size(step_.axes)));
        break;
      case StepKind::CollectivePermute:
        permute();
        break;
      case StepKind::ReduceScatter:
        dims_gain();
        check(difference(before_.partial, after_.partial) == step_.axes,
              "the scattered axes are not those completed");
        price(CollectiveKind::ReduceScatter, bytes_before_,
              (total_size(step_.axes) - 1) * bytes_after_);
        break;
      case StepKind::AllReduce: {
        check(same_dims(), "dimensions change");
        auto axes = difference(before_.partial, after_.partial);
        check(axes && !axes->empty(), "no partial axis is completed");
        step_.axes = *axes;
        price(CollectiveKind::AllReduce, bytes_before_,
              2 * bytes_before_ - 2 * bytes_before_ / total_size(step_.axes));
        break;
      }
      case StepKind::ReplicatedToPartial: {
        check(same_dims(), "dimensions change");
        auto axes = difference(after_.partial, before_.partial);
        check(axes && !axes->empty(), "no axis becomes partial");
        step_.axes = *axes;
        local(bytes_after_);
        break;
      }
      case StepKind::ShardedToPartial:
        dims_lose();
        check(difference(after_.partial, before_.partial) == step_.axes,
              "the axes that become partial are not those that leave dimensions");
        check(after_.partial_op != ReduceOp::Avg, "avg has no identity");
        local(bytes_after_);
        break;
      case StepKind::Scatter:
      case StepKind::Gather:
      case StepKind::Relabel:
        break;
    }
    return std::move(step_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw_user("{} does not lead from {} to {}: {}", name(step_.kind), to_string(before_),
               to_string(after_), why);
  }
  void check(bool condition, const char* why) const {
    if (!condition) fail(why);
  }

  int64_t local_bytes(const ShardingSpec& spec, DType dtype) const {
    if (spec.mesh->is_maximal()) return num_elements(shape_) * byte_size(dtype);
    if (spec.rank() != shape_.size()) return 0;
    return num_elements(local_shape(spec, shape_)) * byte_size(dtype);
  }

  // What a device lacks of its new shard, at most; `even` where all are as large. The device with
  // the smallest shard of a gathered dimension lacks the most of it.
  int64_t lacking(int64_t even) const {
    if (is_even(before_, shape_) && is_even(after_, shape_)) return even;
    int64_t most = 0;
    for (int64_t p = 0; p < before_.mesh->num_devices(); ++p) {
      const ShardSlice have = shard_slice(before_, shape_, p);
      const ShardSlice want = shard_slice(after_, shape_, p);
      int64_t common = 1;
      for (size_t d = 0; d < shape_.size(); ++d) {
        const int64_t begin = std::max(have.offset[d], want.offset[d]);
        const int64_t end = std::min(have.offset[d] + have.size[d], want.offset[d] + want.size[d]);
        common *= std::max<int64_t>(0, end - begin);
      }
      most = std::max(most, num_elements(want.size) - common);
    }
    return most * byte_size(dtype_);
  }

  bool same_dims() const {
    for (size_t d = 0; d < shape_.size(); ++d)
      if (before_.dims[d].axes != after_.dims[d].axes) return false;
    return true;
  }

  void set_dim_axes(const ShardingSpec& longer, const ShardingSpec& shorter, const char* why) {
    for (size_t d = 0; d < shape_.size(); ++d) {
      auto rest = suffix_beyond(longer.dims[d].axes, shorter.dims[d].axes);
      if (!rest) fail(why);
      check_nesting(d, total_size(shorter.dims[d].axes), total_size(*rest));
      step_.dim_axes.push_back(std::move(*rest));
    }
    step_.axes = sorted_union(step_.dim_axes);
    check(!step_.axes.empty(), "nothing changes");
  }
  void dims_lose() { set_dim_axes(before_, after_, "it can only remove axes at minor ends"); }
  void dims_gain() { set_dim_axes(after_, before_, "it can only append axes at minor ends"); }

  void check_nesting(size_t dim, int64_t coarse, int64_t ratio) const {
    if (chunks_nest(shape_[dim], coarse, ratio)) return;
    fail(fmt::format("dimension {} of size {} has other borders over {} shards than over {}", dim,
                     shape_[dim], coarse, coarse * ratio));
  }

  void moves() {
    const int rank = static_cast<int>(shape_.size());
    std::vector<AxisList> lost(rank), gained(rank);
    for (int d = 0; d < rank; ++d) {
      const AxisList& a = before_.dims[d].axes;
      const AxisList& b = after_.dims[d].axes;
      if (a == b) continue;
      if (auto rest = suffix_beyond(a, b))
        lost[d] = *rest;
      else if (auto more = suffix_beyond(b, a))
        gained[d] = *more;
      else
        fail("a dimension loses and gains axes");
    }
    for (int from = 0; from < rank; ++from) {
      if (lost[from].empty()) continue;
      bool found = false;
      for (int to = 0; to < rank; ++to) {
        if (gained[to] != lost[from]) continue;
        const int64_t ratio = total_size(lost[from]);
        check_nesting(from, total_size(after_.dims[from].axes), ratio);
        check_nesting(to, total_size(before_.dims[to].axes), ratio);
        step_.moves.push_back({lost[from], from, to});
        gained[to].clear();
        found = true;
        break;
      }
      check(found, "axes that leave a dimension do not arrive together in another");
    }
    for (const AxisList& rest : gained) check(rest.empty(), "a dimension gains replicated axes");
    check(!step_.moves.empty(), "nothing changes");
    std::vector<AxisList> lists;
    for (const AllToAllMove& move : step_.moves) lists.push_back(move.axes);
    step_.axes = sorted_union(lists);
  }

  void permute() {
    for (size_t d = 0; d < shape_.size(); ++d)
      check(total_size(before_.dims[d].axes) == total_size(after_.dims[d].axes),
            "a dimension changes its number of shards");
    check(total_size(before_.partial) == total_size(after_.partial),
          "the number of parts of the partial changes");
    check(before_.mesh->num_devices() == after_.mesh->num_devices(),
          "the meshes have different numbers of devices");
    // Parts of a pending sum move although they are parts of the same elements.
    const bool moves_elements = before_.partial == after_.partial && *before_.mesh == *after_.mesh;
    step_.bytes = moves_elements ? lacking(bytes_after_) : bytes_after_;
    AxisList group;
    if (reshard::can_share_atoms(before_, after_)) {
      group = reshard::changed_axes(before_, after_);
    } else {
      group = all_axes(*before_.mesh);
    }
    step_.seconds = collective_seconds(CollectiveKind::Permute, static_cast<double>(bytes_after_),
                                       *before_.mesh, group, profile_);
    step_.links = std::move(group);
    step_.buffer = static_cast<double>(bytes_after_);
  }

  // The one device is what limits both: all that the others get or have goes over its links, as in
  // an all_gather of a buffer of that size.
  void scatter() {
    check(before_.mesh->is_maximal(), "the tensor is not on a single device");
    check(!after_.mesh->is_maximal() && after_.partial.empty(), "the target is not a whole mesh");
    step_.axes = all_axes(*after_.mesh);
    step_.bytes = bytes_after_;
    step_.seconds = collective_seconds(
        CollectiveKind::AllGather, static_cast<double>(bytes_after_ * after_.mesh->num_devices()),
        *after_.mesh, step_.axes, profile_);
  }
  void gather() {
    check(after_.mesh->is_maximal(), "the target is not a single device");
    check(before_.partial.empty(), "a reduction is pending");
    if (before_.mesh->is_maximal()) {
      const Mesh pair{{"pair", 2}};
      step_.bytes = bytes_after_;
      step_.seconds = collective_seconds(CollectiveKind::Permute, static_cast<double>(bytes_after_),
                                         pair, {whole_axis(pair, 0)}, profile_);
      return;
    }
    const int64_t device = after_.mesh->device_ids[0];
    const bool inside = device < before_.mesh->num_devices();
    std::vector<AxisList> lists;
    for (const DimSpec& dim : before_.dims) lists.push_back(dim.axes);
    step_.axes = sorted_union(lists);
    int64_t own = 0;
    if (inside) {
      const Shape size = shard_slice(before_, shape_, before_.mesh->position_of(device)).size;
      own = num_elements(size) * (bytes_after_ / std::max<int64_t>(1, num_elements(shape_)));
    }
    step_.bytes = bytes_after_ - own;
    if (step_.bytes == 0) return;
    step_.seconds = collective_seconds(
        CollectiveKind::AllGather, static_cast<double>(bytes_after_), *before_.mesh,
        step_.axes.empty() ? all_axes(*before_.mesh) : step_.axes, profile_);
  }
  static AxisList all_axes(const Mesh& mesh) {
    AxisList axes;
    for (size_t i = 0; i < mesh.axes.size(); ++i)
      axes.push_back(whole_axis(mesh, static_cast<int>(i)));
    return axes;
  }

  void price(CollectiveKind kind, int64_t buffer, int64_t received) {
    step_.bytes = received;
    step_.links = step_.axes;
    step_.buffer = static_cast<double>(buffer);
    step_.seconds =
        collective_seconds(kind, static_cast<double>(buffer), *before_.mesh, step_.axes, profile_);
  }
  void local(int64_t bytes) { step_.seconds = copy_seconds(static_cast<double>(bytes), profile_); }

  const ShardingSpec& before_;
  const ShardingSpec& after_;
  const Shape& shape_;
  const DType dtype_;
  const MachineProfile& profile_;
  int64_t bytes_before_, bytes_after_;
  ReshardStep step_;
};

}  // namespace

std::string_view name(StepKind kind) { return kStepNames[static_cast<size_t>(kind)]; }

std::optional<StepKind> step_kind_from_name(std::string_view name) {
  for (size_t i = 0; i < kStepNames.size(); ++i)
    if (kStepNames[i] == name) return static_cast<StepKind>(i);
  return std::nullopt;
}

ReshardStep make_step(StepKind kind, const ShardingSpec& before, const ShardingSpec& after,
                      const Shape& shape, DType dtype, const MachineProfile& profile) {
  if (!has_axes_of_one(*before.mesh) && !has_axes_of_one(*after.mesh))
    return StepMaker(kind, before, after, shape, dtype, profile).make();
  const ShardingSpec from = without_axes_of_one(before), to = without_axes_of_one(after);
  ReshardStep step = StepMaker(kind, from, to, shape, dtype, profile).make();
  step.after = after;
  return step;
}

std::string to_string(const ReshardStep& step) {
  const Mesh& mesh = *step.after.mesh;
  std::string text(name(step.kind));
  if (step.kind == StepKind::Gather) return text + " -> " + to_string(step.after);
  if (!step.dim_axes.empty()) {
    text += " [";
    for (size_t d = 0; d < step.dim_axes.size(); ++d)
      text += (d ? ", {" : "{") + to_string(step.dim_axes[d], mesh) + "}";
    text += "]";
  } else if (!step.moves.empty()) {
    text += " [";
    for (size_t i = 0; i < step.moves.size(); ++i)
      text += fmt::format("{}{{{}}}: {}->{}", i ? ", " : "", to_string(step.moves[i].axes, mesh),
                          step.moves[i].source_dim, step.moves[i].target_dim);
    text += "]";
  } else if (!step.axes.empty()) {
    text += " {" + to_string(step.axes, mesh) + "}";
  }
  return text + " -> " + to_string(step.after);
}

}  // namespace cleave
