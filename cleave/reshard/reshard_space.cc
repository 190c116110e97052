#include "cleave/reshard/reshard_space.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "cleave/core/error.h"
#include "cleave/machine/combine.h"
#include "cleave/machine/overlap.h"

namespace cleave::reshard {
namespace {

template <typename Visit>
void for_each_axis(const ShardingSpec& spec, const Visit& visit) {
  for (const DimSpec& dim : spec.dims)
    for (const AxisRef& ref : dim.axes) visit(ref);
  for (const AxisRef& ref : spec.partial) visit(ref);
}

// Where an atom stands in a spec: the dimension (or -1 replicated, -2 partial) and the shards major
// to it.
struct Place {
  int where = -1;
  int64_t major = 1;
  bool operator==(const Place&) const = default;
};

Place place_of(const AxisRef& atom, const ShardingSpec& spec) {
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    int64_t major = 1;
    for (const AxisRef& ref : spec.dims[d].axes) {
      if (contains(ref, atom)) return {static_cast<int>(d), major * (atom.pre / ref.pre)};
      major *= ref.size;
    }
  }
  for (const AxisRef& ref : spec.partial)
    if (contains(ref, atom)) return {-2, 1};
  return {};
}

}  // namespace

const LinkCache::Group& LinkCache::group(AxisList axes) {
  std::sort(axes.begin(), axes.end());
  merge_neighbours(axes);
  std::unique_ptr<Group>& entry = groups_[axes];
  if (entry) return *entry;
  entry = std::make_unique<Group>();
  const GroupLinks links = group_links(*mesh_, axes, *profile_);
  entry->is_across = links.nodes > 1;
  for (int k = 0; k < kNumCollectiveKinds; ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    entry->alone[k] = collective_cost(kind, *mesh_, axes, *profile_);
    entry->shares[k] =
        share_of_combined(entry->alone[k], combine_limit(kind, links.ranks, profile_->executor));
  }
  return *entry;
}

ReshardPrice LinkCache::price(CollectiveKind kind, AxisList axes, double buffer) {
  const Group& of = group(std::move(axes));
  const auto k = static_cast<size_t>(kind);
  ReshardPrice price;
  price.seconds = of.alone[k].seconds(buffer);
  (of.is_across ? price.across : price.inside) = of.shares[k].seconds(buffer);
  return price;
}

const GroupLinks& LinkCache::links(const AxisList& axes) {
  auto [it, is_new] = links_.try_emplace(axes);
  if (is_new) it->second = group_links(*mesh_, axes, *profile_);
  return it->second;
}

Space::Space(MeshPtr mesh, AxisList atoms, const Tensor& tensor, ReduceOp source_op,
             ReduceOp target_op, LinkCache& links)
    : mesh_(std::move(mesh)),
      atoms_(std::move(atoms)),
      tensor_(&tensor),
      source_op_(source_op),
      target_op_(target_op),
      links_(&links),
      costs_(size_t{1} << atoms_.size(), nullptr) {}

State Space::state_of(const ShardingSpec& spec, int partial_bin) const {
  State state;
  auto put = [&](const AxisList& axes, int bin) {
    int place = 0;
    for (const AxisRef& ref : axes)
      for (int a = 0; a < num_atoms(); ++a)
        if (contains(ref, atoms_[a])) state.set(a, bin, bin >= kTargetPartial ? 0 : place++);
  };
  for (int b = 0; b < num_bins(); ++b) put(spec.dims[tensor_->bin_dim[b]].axes, b);
  put(spec.partial, partial_bin);
  return state;
}

Layout Space::layout_of(const State& state) const {
  Layout layout;
  layout.shards.fill(1);
  for (int a = 0; a < num_atoms(); ++a) {
    const int bin = state.bin(a);
    layout.atoms[bin][bin >= kTargetPartial ? layout.length[bin] : state.place(a)] =
        static_cast<uint8_t>(a);
    ++layout.length[bin];
    layout.shards[bin] *= atoms_[a].size;
  }
  return layout;
}

ShardingSpec Space::spec_of(const State& state) const {
  const Layout layout = layout_of(state);
  ShardingSpec spec = ShardingSpec::closed_replicated(mesh_, tensor_->shape.size());
  for (int b = 0; b < num_bins(); ++b)
    for (int i = 0; i < layout.length[b]; ++i)
      append_axis(spec.dims[tensor_->bin_dim[b]].axes, atoms_[layout.atoms[b][i]]);
  for (int bin : {kPartial, kTargetPartial}) {
    if (layout.length[bin] == 0) continue;
    spec.partial_op = bin == kPartial ? source_op_ : target_op_;
    for (int i = 0; i < layout.length[bin]; ++i)
      spec.partial.push_back(atoms_[layout.atoms[bin][i]]);
  }
  std::sort(spec.partial.begin(), spec.partial.end());
  merge_neighbours(spec.partial);
  return spec;
}

double Space::bytes(const Layout& layout) const {
  double bytes = tensor_->other_bytes;
  for (int b = 0; b < num_bins(); ++b)
    bytes *= static_cast<double>(ceil_div(tensor_->bin_size[b], layout.shards[b]));
  return bytes;
}

const GroupCosts& Space::costs(uint32_t atom_mask) {
  const GroupCosts*& entry = costs_[atom_mask];
  if (!entry) {
    AxisList axes;
    for (int a = 0; a < num_atoms(); ++a)
      if (atom_mask >> a & 1) axes.push_back(atoms_[a]);
    entry = &links_->costs(std::move(axes));
  }
  return *entry;
}

bool can_share_atoms(const ShardingSpec& a, const ShardingSpec& b) {
  if (a.mesh != b.mesh && !a.mesh->same_devices(*b.mesh)) return false;
  bool fits = true;
  for_each_axis(a, [&](const AxisRef& x) {
    for_each_axis(b, [&](const AxisRef& y) { fits = fits && can_coexist(x, y); });
  });
  return fits;
}

AxisList atoms_of(const Mesh& mesh, const std::vector<const ShardingSpec*>& specs) {
  AxisList atoms;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    std::set<int64_t> borders;
    AxisList refs;
    for (const ShardingSpec* spec : specs)
      for_each_axis(*spec, [&](const AxisRef& ref) {
        if (ref.axis != static_cast<int>(axis) || ref.size == 1) return;
        refs.push_back(ref);
        borders.insert({ref.pre, ref.next_pre()});
      });
    for (auto it = borders.begin(); it != borders.end() && std::next(it) != borders.end(); ++it) {
      const AxisRef atom{static_cast<int32_t>(axis), static_cast<int32_t>(*it),
                         static_cast<int32_t>(*std::next(it) / *it)};
      if (std::any_of(refs.begin(), refs.end(),
                      [&](const AxisRef& r) { return overlaps(r, atom); }))
        atoms.push_back(atom);
    }
  }
  return atoms;
}

AxisList changed_axes(const ShardingSpec& from, const ShardingSpec& to) {
  AxisList changed;
  for (const AxisRef& atom : atoms_of(*from.mesh, {&from, &to}))
    if (place_of(atom, from) != place_of(atom, to)) changed.push_back(atom);
  return changed;
}

AxisList cut_moving_atoms(const AxisList& atoms, const ShardingSpec& from, const ShardingSpec& to) {
  std::vector<int32_t> sizes;
  std::vector<bool> moves;
  for (const AxisRef& atom : atoms) {
    moves.push_back(place_of(atom, from) != place_of(atom, to));
    if (moves.back()) sizes.push_back(atom.size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() < 2) return atoms;
  AxisList cut;
  for (size_t i = 0; i < atoms.size(); ++i) {
    AxisRef rest = atoms[i];
    const size_t left = atoms.size() - i - 1;
    for (auto size = sizes.rbegin(); moves[i] && size != sizes.rend(); ++size) {
      const int32_t part = std::gcd(rest.size, *size);
      if (part == 1 || part == rest.size || cut.size() + left + 2 > 5) continue;
      cut.push_back({rest.axis, rest.pre, rest.size / part});
      rest = {rest.axis, rest.pre * (rest.size / part), part};
    }
    cut.push_back(rest);
  }
  return cut;
}

}  // namespace cleave::reshard
