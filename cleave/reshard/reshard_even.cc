#include <algorithm>
#include <limits>
#include <queue>

#include "cleave/reshard/reshard_lattice.h"

namespace cleave::reshard {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();
// Between ways of equal cost the one with fewer steps: each counts this much more, in seconds.
constexpr double kPerStep = 1e-13;

// Whether a part of one is a part of the other; all reductions but averages move alike.
bool same_reduction(const ShardingSpec& from, const ShardingSpec& to) {
  return from.partial.empty() || to.partial.empty() || from.partial_op == to.partial_op;
}

}  // namespace

EvenReshards::EvenReshards(MeshPtr mesh, const MachineProfile& profile, LinkCache& links,
                           const AxisList& parts)
    : mesh_(std::move(mesh)), profile_(&profile), links_(&links) {
  for (size_t axis = 0; axis < mesh_->axes.size(); ++axis) {
    const AxisRef whole = whole_axis(*mesh_, static_cast<int>(axis));
    if (whole.size == 1) continue;
    const size_t before = atoms_.size();
    for (const AxisRef& part : parts)
      if (part.axis == whole.axis) atoms_.push_back(part);
    if (atoms_.size() == before) atoms_.push_back(whole);
  }
  for (const AxisRef& atom : atoms_) sizes_.push_back(atom.size);
}

EvenReshards::Shaped& EvenReshards::shaped(const Shape& shape, DType dtype) {
  key_.assign(reinterpret_cast<const char*>(shape.data()), shape.size() * sizeof(int64_t));
  key_ += static_cast<char>(dtype);
  auto [it, is_new] = shapes_.try_emplace(key_);
  Shaped& entry = it->second;
  if (!is_new) return entry;
  if (sizes_.size() > 4) return entry;
  std::vector<std::pair<Lattice::Room, int>> bins;
  double bytes = static_cast<double>(byte_size(dtype));
  for (size_t d = 0; d < shape.size(); ++d) {
    bytes *= static_cast<double>(shape[d]);
    Lattice::Room room = 0;
    for (uint32_t set = 0; set < 1u << sizes_.size(); ++set) {
      int64_t shards = 1;
      for (size_t a = 0; a < sizes_.size(); ++a)
        if (set >> a & 1) shards *= sizes_[a];
      if (shape[d] > 0 && shape[d] % shards == 0) room |= 1u << set;
    }
    if (room > 1) bins.emplace_back(room, static_cast<int>(d));
  }
  std::sort(bins.begin(), bins.end());
  std::vector<Lattice::Room> rooms;
  entry.bin_of.assign(shape.size(), -1);
  for (const auto& [room, dim] : bins) {
    entry.bin_of[dim] = static_cast<int>(rooms.size());
    rooms.push_back(room);
    entry.bin_dim.push_back(dim);
  }
  std::unique_ptr<Lattice>& lattice = lattices_[rooms];
  if (!lattice) lattice = std::make_unique<Lattice>(sizes_, rooms);
  if (!lattice->is_usable()) return entry;
  std::unique_ptr<Sized>& sized = sized_[{rooms, bytes}];
  entry.sized = sized.get();
  if (sized) return entry;
  sized = std::make_unique<Sized>();
  entry.sized = sized.get();
  sized->lattice = lattice.get();
  sized->rows.resize(lattice->size());
  const size_t n = sizes_.size();
  sized->prices.resize(Lattice::num_prices(n));
  for (uint32_t buffer = 0; buffer < 1u << n; ++buffer) {
    double held = bytes;
    for (size_t a = 0; a < n; ++a)
      if (buffer >> a & 1) held /= static_cast<double>(sizes_[a]);
    const double copy = copy_seconds(held, *profile_);
    sized->prices[Lattice::price_index(Lattice::kCopy, 0, buffer, n)] = {copy, copy, 0, 0};
    for (uint32_t set = 1; set < 1u << n; ++set) {
      AxisList axes;
      for (size_t a = 0; a < n; ++a)
        if (set >> a & 1) append_axis(axes, atoms_[a]);
      for (int kind = 0; kind < kNumCollectiveKinds; ++kind)
        sized->prices[Lattice::price_index(kind, set, buffer, n)] =
            links_->price(static_cast<CollectiveKind>(kind), axes, held);
    }
  }
  return entry;
}

std::optional<State> EvenReshards::state_of(const ShardingSpec& spec, const Shaped& shaped) const {
  State state;
  auto put = [&](const AxisList& axes, int bin) {
    int place = 0;
    for (const AxisRef& ref : axes) {
      int64_t rest = ref.size;
      for (size_t atom = 0; atom < atoms_.size() && rest > 1; ++atom) {
        if (!contains(ref, atoms_[atom])) continue;
        if (bin < 0) return false;
        state.set(static_cast<int>(atom), bin, bin == kPartial ? 0 : place++);
        rest /= atoms_[atom].size;
      }
      if (rest > 1) return false;
    }
    return true;
  };
  for (size_t d = 0; d < spec.dims.size(); ++d)
    if (!put(spec.dims[d].axes, shaped.bin_of[d])) return std::nullopt;
  if (!spec.partial.empty() && spec.partial_op == ReduceOp::Avg) return std::nullopt;
  if (!put(spec.partial, kPartial)) return std::nullopt;
  return state;
}

std::optional<EvenReshards::Ends> EvenReshards::ends(const ShardingSpec& from,
                                                     const ShardingSpec& to, const Shape& shape,
                                                     DType dtype) {
  if (!same_reduction(from, to)) return std::nullopt;
  Shaped& entry = shaped(shape, dtype);
  const Ends ends{&entry, find(from, entry), find(to, entry)};
  if (ends.from < 0 || ends.to < 0) return std::nullopt;
  return ends;
}

int32_t EvenReshards::find(const ShardingSpec& spec, const Shaped& shaped) const {
  if (!shaped.sized || (spec.mesh != mesh_ && *spec.mesh != *mesh_)) return -1;
  const std::optional<State> state = state_of(spec, shaped);
  return state ? shaped.sized->lattice->find(*state) : -1;
}

std::vector<ReshardPrice> EvenReshards::table(const std::vector<const ShardingSpec*>& from,
                                              const std::vector<const ShardingSpec*>& to,
                                              const Shape& shape, DType dtype) {
  Shaped& entry = shaped(shape, dtype);
  std::vector<int32_t> targets;
  for (const ShardingSpec* spec : to) targets.push_back(find(*spec, entry));
  ReshardPrice no_answer;
  no_answer.seconds = std::numeric_limits<double>::quiet_NaN();
  std::vector<ReshardPrice> prices;
  prices.reserve(from.size() * to.size());
  for (const ShardingSpec* spec : from) {
    const int32_t source = find(*spec, entry);
    const Row* all = source < 0 ? nullptr : &row(*entry.sized, source);
    for (size_t i = 0; i < to.size(); ++i)
      prices.push_back(all && targets[i] >= 0 && same_reduction(*spec, *to[i])
                           ? all->prices[targets[i]]
                           : no_answer);
  }
  return prices;
}

const EvenReshards::Row& EvenReshards::row(Sized& sized, int32_t source) const {
  std::unique_ptr<Row>& row = sized.rows[source];
  if (row) return *row;
  row = std::make_unique<Row>();
  const Lattice& lattice = *sized.lattice;
  row->prices.resize(lattice.size());
  for (ReshardPrice& price : row->prices) price.seconds = kUnreached;
  row->parent.assign(lattice.size(), -1);
  row->kind.assign(lattice.size(), StepKind::Relabel);
  std::vector<double> key(lattice.size(), kUnreached);
  std::vector<const ReshardPrice*> last(lattice.size(), nullptr);  // the price of the step to it
  using Waiting = std::pair<double, int32_t>;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> queue;
  key[source] = row->prices[source].seconds = 0;
  queue.emplace(0, source);
  while (!queue.empty()) {
    const auto [reached, at] = queue.top();
    queue.pop();
    if (reached > key[at]) continue;
    if (last[at]) {
      row->prices[at] = row->prices[row->parent[at]];
      row->prices[at] += *last[at];
    }
    for (const Lattice::Step* step = lattice.begin(at); step != lattice.end(at); ++step) {
      const ReshardPrice& price = sized.prices[step->price];
      const double next = reached + price.seconds + kPerStep;
      if (next >= key[step->to]) continue;
      key[step->to] = next;
      last[step->to] = &price;
      row->parent[step->to] = at;
      row->kind[step->to] = step->kind;
      queue.emplace(next, step->to);
    }
  }
  return *row;
}

std::optional<ReshardPrice> EvenReshards::price(const ShardingSpec& from, const ShardingSpec& to,
                                                const Shape& shape, DType dtype) {
  const std::optional<Ends> e = ends(from, to, shape, dtype);
  if (!e) return std::nullopt;
  return row(*e->shaped->sized, e->from).prices[e->to];
}

std::optional<std::vector<EvenReshards::Stop>> EvenReshards::path(const ShardingSpec& from,
                                                                  const ShardingSpec& to,
                                                                  const Shape& shape, DType dtype) {
  const std::optional<Ends> e = ends(from, to, shape, dtype);
  if (!e) return std::nullopt;
  const Row& all = row(*e->shaped->sized, e->from);
  std::vector<Stop> stops;
  const ReduceOp op = from.is_partial() ? from.partial_op : to.partial_op;
  for (int32_t at = e->to; at != e->from; at = all.parent[at]) {
    stops.push_back({all.kind[at], spec_of(e->shaped->sized->lattice->state(at), *e->shaped)});
    if (stops.back().after.is_partial()) stops.back().after.partial_op = op;
  }
  std::reverse(stops.begin(), stops.end());
  return stops;
}

ShardingSpec EvenReshards::spec_of(const State& state, const Shaped& shaped) const {
  ShardingSpec spec = ShardingSpec::closed_replicated(mesh_, shaped.bin_of.size());
  for (size_t b = 0; b < shaped.bin_dim.size(); ++b)
    for (size_t place = 0; place < sizes_.size(); ++place)
      for (size_t a = 0; a < sizes_.size(); ++a)
        if (state.bin(static_cast<int>(a)) == static_cast<int>(b) &&
            state.place(static_cast<int>(a)) == static_cast<int>(place))
          append_axis(spec.dims[shaped.bin_dim[b]].axes, atoms_[a]);
  for (size_t a = 0; a < sizes_.size(); ++a)
    if (state.bin(static_cast<int>(a)) == kPartial) append_axis(spec.partial, atoms_[a]);
  return spec;
}

}  // namespace cleave::reshard
