#include "cleave/reshard/reshard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/reshard/reshard_lattice.h"
#include "cleave/reshard/reshard_search.h"
#include "cleave/reshard/reshard_single.h"

namespace cleave {
namespace {

using namespace reshard;

// `spare`: where one dimension alone is sharded, a second one may be on the way.
Tensor tensor_of(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape, DType dtype,
                 bool spare) {
  Tensor tensor;
  tensor.shape = shape;
  std::vector<bool> used(shape.size(), false);
  size_t count = 0, largest = shape.size();  // of those that neither shards
  for (size_t d = 0; d < shape.size(); ++d) {
    used[d] = !from.dims[d].axes.empty() || !to.dims[d].axes.empty();
    if (used[d]) {
      ++count;
    } else if (largest == shape.size() || shape[d] > shape[largest]) {
      largest = d;
    }
  }
  // A partial may be scattered on the way: over the largest dimension.
  if ((count == 0 || (count == 1 && spare)) && largest < shape.size()) used[largest] = true;
  tensor.other_bytes = byte_size(dtype);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (used[d]) {
      tensor.bin_dim.push_back(static_cast<int>(d));
      tensor.bin_size.push_back(shape[d]);
    } else {
      tensor.other_bytes *= static_cast<double>(shape[d]);
    }
  }
  if (tensor.bin_dim.size() > kMaxBins)
    throw_user("reshard: {} sharded dimensions are more than {}", tensor.bin_dim.size(), kMaxBins);
  return tensor;
}

// `trusted` specs have been verified before.
void check_arguments(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                     bool trusted) {
  for (const ShardingSpec* spec : {&from, &to}) {
    if (!trusted) verify(*spec);
    if (spec->mesh->is_maximal()) continue;
    if (!trusted || spec->rank() != shape.size()) verify(*spec, shape);
  }
  for (int64_t size : shape)
    if (size == kDynamicSize)
      throw_user("reshard: the tensor <{}> has a dimension of unknown size", to_string(shape));
  if (from.mesh->is_empty() || to.mesh->is_empty()) return;
  if (from.mesh->is_maximal() || to.mesh->is_maximal()) return;
  if (from.mesh->num_devices() != to.mesh->num_devices())
    throw_user("reshard: the meshes {} and {} have different numbers of devices",
               to_string(*from.mesh), to_string(*to.mesh));
}

}  // namespace

bool chunks_nest(int64_t n, int64_t coarse, int64_t ratio) {
  if (coarse == 1 || ratio == 1) return true;
  const int64_t whole = ceil_div(n, coarse), part = ceil_div(n, coarse * ratio) * ratio;
  return whole == part || whole >= n;
}

namespace {

// A spec on the empty mesh stands for replicated on whatever mesh the other end has.
ShardingSpec on_mesh_of(const ShardingSpec& spec, const ShardingSpec& other) {
  if (!spec.mesh->is_empty()) return spec;
  return ShardingSpec::closed_replicated(other.mesh, spec.rank());
}

}  // namespace

struct Resharder::Impl {
  MachineProfile profile;
  ReshardOptions options;
  std::vector<std::unique_ptr<LinkCache>> links;
  std::vector<std::unique_ptr<EvenReshards>> even;
  std::unordered_map<std::string, ReshardPrice> searched;

  // Null where every reshard is a search of its own.
  EvenReshards* even_on(const MeshPtr& mesh) {
    if (!options.whole_axes || options.memory) return nullptr;
    for (auto& entry : even)
      if (&entry->mesh() == mesh.get() || entry->mesh() == *mesh) return entry.get();
    even.push_back(std::make_unique<EvenReshards>(mesh, profile, links_of(mesh), options.parts));
    return even.back().get();
  }

  LinkCache& links_of(const MeshPtr& mesh) {
    for (auto& cache : links)
      if (&cache->mesh() == mesh.get()) return *cache;
    for (auto& cache : links)
      if (cache->mesh() == *mesh) return *cache;
    links.push_back(std::make_unique<LinkCache>(mesh, profile));
    return *links.back();
  }

  struct Result {
    Path path;
    std::unique_ptr<Tensor> tensor;
    std::unique_ptr<Space> source, target;  // target null: the same
  };

  Result search(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape, DType dtype) {
    Result result;
    const bool shared = can_share_atoms(from, to);
    const bool spare = shared && !options.whole_axes && spans_nodes(*from.mesh);
    result.tensor = std::make_unique<Tensor>(tensor_of(from, to, shape, dtype, spare));
    const bool same_op =
        from.partial.empty() || to.partial.empty() || from.partial_op == to.partial_op;
    const ReduceOp source_op = from.partial.empty() ? to.partial_op : from.partial_op;
    const ReduceOp target_op = to.partial.empty() ? from.partial_op : to.partial_op;
    auto make_space = [&](const MeshPtr& mesh, AxisList atoms) {
      if (atoms.size() > kMaxAtoms)
        throw_user("reshard: {} sub-axes are more than {}", atoms.size(), kMaxAtoms);
      return std::make_unique<Space>(mesh, std::move(atoms), *result.tensor, source_op, target_op,
                                     links_of(mesh));
    };
    if (shared) {
      result.source = make_space(from.mesh, shared_atoms(from, to));
    } else {
      result.source = make_space(from.mesh, atoms_for(from, to));
      result.target = make_space(to.mesh, atoms_for(to, from));
    }
    SearchProblem problem;
    problem.source = result.source.get();
    problem.target = shared ? problem.source : result.target.get();
    problem.target_partial_bin = same_op ? kPartial : kTargetPartial;
    problem.from = problem.source->state_of(from, kPartial);
    problem.to = problem.target->state_of(to, problem.target_partial_bin);
    problem.memory = options.memory ? static_cast<double>(*options.memory)
                                    : std::numeric_limits<double>::infinity();
    problem.max_states = options.max_states;
    auto path = find_path(problem, profile);
    if (!path) no_way(from, to, shape, dtype);
    result.path = std::move(*path);
    return result;
  }

  bool spans_nodes(const Mesh& mesh) const { return mesh.num_devices() > profile.devices_per_node; }

  // For one mesh: the axes of both specs, cut where either can use a part.
  AxisList shared_atoms(const ShardingSpec& from, const ShardingSpec& to) {
    const Mesh& mesh = *from.mesh;
    const AxisList plain = atoms_of(mesh, {&from, &to});
    if (options.whole_axes) return plain;
    if (!spans_nodes(mesh) || plain.size() > 4) return cut_moving_atoms(plain, from, to);
    AxisList atoms = cut_at_nodes(plain, from.mesh);
    const bool is_cut = atoms.size() > plain.size();
    if (plain.size() <= 3) atoms = with_spare_axes(std::move(atoms), from.mesh);
    return is_cut ? atoms : cut_moving_atoms(atoms, from, to);
  }

  // For two meshes: the axes of one's spec, and those that the other uses too where the meshes have
  // the same axes, or else those that it does not use: permutes may put them in the place of
  // others.
  AxisList atoms_for(const ShardingSpec& spec, const ShardingSpec& other) const {
    const Mesh& mesh = *spec.mesh;
    if (mesh.axes == other.mesh->axes) {
      ShardingSpec same = other;
      same.mesh = spec.mesh;
      if (can_share_atoms(spec, same)) return atoms_of(mesh, {&spec, &same});
    }
    AxisList atoms = atoms_of(mesh, {&spec});
    for (size_t i = 0; i < mesh.axes.size() && atoms.size() < 4; ++i) {
      const AxisRef axis = whole_axis(mesh, static_cast<int>(i));
      if (axis.size > 1 && !overlaps_any(axis, atoms)) atoms.push_back(axis);
    }
    std::sort(atoms.begin(), atoms.end());
    return atoms;
  }

  // Cuts axes that run through nodes and across them, so that either part can be moved alone.
  AxisList cut_at_nodes(const AxisList& atoms, const MeshPtr& mesh) {
    AxisList cut;
    for (const AxisRef& atom : atoms) {
      const GroupLinks& links = links_of(mesh).links({atom});
      if (links.nodes > 1 && links.per_node > 1 && links.nodes * links.per_node == atom.size &&
          cut.size() < 4) {
        const auto nodes = static_cast<int32_t>(links.nodes);
        cut.push_back({atom.axis, atom.pre, nodes});
        cut.push_back({atom.axis, atom.pre * nodes, atom.size / nodes});
      } else {
        cut.push_back(atom);
      }
    }
    return cut;
  }

  // Adds an axis that neither spec uses, where it can save traffic on slower links: a tensor that
  // is replicated inside nodes is sliced there, moved between nodes in parts, and gathered again.
  AxisList with_spare_axes(AxisList atoms, const MeshPtr& on) {
    const Mesh& mesh = *on;
    LinkCache& cache = links_of(on);
    if (atoms.empty() || cache.links(atoms).nodes == 1) return atoms;
    for (size_t i = mesh.axes.size(); i-- > 0;) {
      const AxisRef spare = whole_axis(mesh, static_cast<int>(i));
      if (spare.size == 1 || overlaps_any(spare, atoms)) continue;
      atoms.push_back(spare);
      if (atoms.size() > 3) break;
    }
    std::sort(atoms.begin(), atoms.end());
    return atoms;
  }

  [[noreturn]] void no_way(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                           DType dtype) {
    const int64_t source = num_elements(local_shape(from, shape)) * byte_size(dtype);
    const int64_t target = num_elements(local_shape(to, shape)) * byte_size(dtype);
    throw_user(
        "reshard of <{}x{}> from {} to {}: no way stays within {} bytes on a device (its shard "
        "takes "
        "{} bytes before and {} after); raise the bound or go through another sharding",
        to_string(shape), name(dtype), to_string(from), to_string(to), options.memory.value_or(0),
        source, target);
  }

  static bool involves_single_device(const ShardingSpec& from, const ShardingSpec& to) {
    return from.mesh->is_maximal() || to.mesh->is_maximal();
  }

  ReshardPlan plan(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                   DType dtype) {
    if (involves_single_device(from, to))
      return plan_single_device(
          on_mesh_of(from, to), on_mesh_of(to, from), shape, dtype, profile, options,
          [&](const ShardingSpec& a, const ShardingSpec& b) { return plan(a, b, shape, dtype); });
    ReshardPlan plan;
    const int64_t element = byte_size(dtype);
    plan.peak_bytes = num_elements(local_shape(from, shape)) * element;
    if (from.same_layout(to)) return plan;
    if (from.is_fully_replicated() && to.is_fully_replicated()) {
      plan.steps.push_back(make_step(StepKind::Relabel, from, to, shape, dtype, profile));
      return plan;
    }
    std::vector<EvenReshards::Stop> stops = find_way(from, to, shape, dtype);
    ShardingSpec before = on_mesh_of(from, to);
    for (size_t i = 0; i < stops.size(); ++i) {
      ShardingSpec after = std::move(stops[i].after);
      const bool last = i + 1 == stops.size();
      if (last) after = on_mesh_of(to, from);
      plan.steps.push_back(make_step(stops[i].kind, before, after, shape, dtype, profile));
      const int64_t held = num_elements(local_shape(before, shape)) * element +
                           num_elements(local_shape(after, shape)) * element;
      if (stops[i].kind != StepKind::Relabel) plan.peak_bytes = std::max(plan.peak_bytes, held);
      plan.seconds += plan.steps.back().seconds;
      plan.bytes += plan.steps.back().bytes;
      before = std::move(after);
    }
    return plan;
  }

  // Steps between meshes, and to and from single devices, are taken to go across nodes.
  ReshardPrice price_of(const ReshardPlan& plan, const MeshPtr& mesh) {
    ReshardPrice sum;
    for (const ReshardStep& step : plan.steps) {
      const auto kind = collective_kind_from_name(name(step.kind));
      ReshardPrice price{step.seconds, 0, 0, 0};
      if (kind && !step.links.empty() && *step.after.mesh == *mesh) {
        price = links_of(mesh).price(*kind, step.links, step.buffer);
        price.seconds = step.seconds;
      } else if (step.bytes > 0) {
        price.across = step.seconds;
      } else {
        price.local = step.seconds;
      }
      sum += price;
    }
    return sum;
  }

  std::vector<EvenReshards::Stop> find_way(const ShardingSpec& from, const ShardingSpec& to,
                                           const Shape& shape, DType dtype) {
    if (EvenReshards* all = even_on(from.mesh))
      if (auto stops = all->path(from, to, shape, dtype)) return std::move(*stops);
    const Result result = search(from, to, shape, dtype);
    std::vector<EvenReshards::Stop> stops;
    for (const PathStep& at : result.path.steps) {
      const Space& space = at.space == 1 && result.target ? *result.target : *result.source;
      stops.push_back({at.kind, space.spec_of(at.state)});
    }
    return stops;
  }
};

Resharder::Resharder(MachineProfile profile, ReshardOptions options)
    : impl_(std::make_unique<Impl>(Impl{std::move(profile), std::move(options), {}, {}, {}})) {}
Resharder::~Resharder() = default;
Resharder::Resharder(Resharder&&) noexcept = default;
Resharder& Resharder::operator=(Resharder&&) noexcept = default;

const MachineProfile& Resharder::profile() const { return impl_->profile; }

ReshardPlan Resharder::plan(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                            DType dtype) {
  check_arguments(from, to, shape, /*trusted=*/false);
  return impl_->plan(from, to, shape, dtype);
}

double Resharder::seconds(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                          DType dtype) {
  return price(from, to, shape, dtype).seconds;
}

ReshardPrice Resharder::price(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                              DType dtype) {
  const bool is_single = Impl::involves_single_device(from, to);
  if (!is_single &&
      (from.same_layout(to) || (from.is_fully_replicated() && to.is_fully_replicated())))
    return {};
  if (EvenReshards* all = is_single ? nullptr : impl_->even_on(from.mesh))
    if (const auto price = all->price(from, to, shape, dtype)) return *price;
  check_arguments(from, to, shape, /*trusted=*/!is_single);
  if (!impl_->options.whole_axes || is_single)
    return impl_->price_of(impl_->plan(from, to, shape, dtype), from.mesh);
  // Who asks by whole axes asks for all pairs, and often for the same.
  const auto [known, is_new] = impl_->searched.try_emplace(
      fmt::format("{}>{}:{}x{}", to_string(from), to_string(to), to_string(shape), name(dtype)));
  if (is_new) known->second = impl_->price_of(impl_->plan(from, to, shape, dtype), from.mesh);
  return known->second;
}

std::vector<ReshardPrice> Resharder::table(const std::vector<const ShardingSpec*>& from,
                                           const std::vector<const ShardingSpec*>& to,
                                           const Shape& shape, DType dtype) {
  if (from.empty() || to.empty()) return {};
  std::vector<ReshardPrice> prices;
  if (EvenReshards* all = impl_->even_on(from[0]->mesh))
    prices = all->table(from, to, shape, dtype);
  const bool is_asked_apart = prices.empty();
  prices.resize(from.size() * to.size());
  for (size_t i = 0; i < prices.size(); ++i)
    if (is_asked_apart || std::isnan(prices[i].seconds))
      prices[i] = price(*from[i / to.size()], *to[i % to.size()], shape, dtype);
  return prices;
}

ReshardPlan plan_reshard(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                         DType dtype, const MachineProfile& profile,
                         const ReshardOptions& options) {
  return Resharder(profile, options).plan(from, to, shape, dtype);
}

}  // namespace cleave
