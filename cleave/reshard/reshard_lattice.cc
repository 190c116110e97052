#include "cleave/reshard/reshard_lattice.h"

#include <algorithm>

namespace cleave::reshard {
namespace {

constexpr int kMostAtoms = 4;
constexpr size_t kFewAtoms = 3;  // with so few, every order is a layout of its own
constexpr size_t kMostStates = 3000;

}  // namespace

// A layout spelled out: the atoms of each bin, major to minor.
struct Lattice::Arrangement {
  std::array<std::array<int8_t, kMostAtoms>, kMaxBins> atoms{};
  std::array<int8_t, kMaxBins> length{};
  std::array<uint32_t, kMaxBins> in_bin{};
  uint32_t split = 0;    // atoms in any bin
  uint32_t partial = 0;  // the rest is replicated

  void append(int bin, int atom) {
    atoms[bin][length[bin]++] = static_cast<int8_t>(atom);
    in_bin[bin] |= 1u << atom;
    split |= 1u << atom;
  }
  int drop(int bin) {
    const int atom = atoms[bin][--length[bin]];
    in_bin[bin] &= ~(1u << atom);
    split &= ~(1u << atom);
    return atom;
  }
  void insert(int bin, int place, int atom) {
    append(bin, atom);
    for (int i = length[bin] - 1; i > place; --i) std::swap(atoms[bin][i], atoms[bin][i - 1]);
  }
  void remove(int bin, int place) {
    for (int i = place; i + 1 < length[bin]; ++i) std::swap(atoms[bin][i], atoms[bin][i + 1]);
    drop(bin);
  }
  State state(size_t bins, size_t num_atoms) const {
    State state;
    for (size_t b = 0; b < bins; ++b)
      for (int i = 0; i < length[b]; ++i) state.set(atoms[b][i], static_cast<int>(b), i);
    for (size_t a = 0; a < num_atoms; ++a)
      if (partial >> a & 1) state.set(static_cast<int>(a), kPartial, 0);
    return state;
  }
};

Lattice::Lattice(std::vector<int64_t> atom_sizes, std::vector<Room> rooms)
    : sizes_(std::move(atom_sizes)), rooms_(std::move(rooms)) {
  if (sizes_.size() > kMostAtoms || rooms_.size() > kMaxBins) return;
  Arrangement none;
  enumerate(0, none);
  if (states_.size() > kMostStates) {
    states_.clear();
    ids_.clear();
    arrangements_.clear();
    return;
  }
  building_.resize(states_.size());
  for (size_t i = 0; i < states_.size(); ++i) {
    at_ = static_cast<int32_t>(i);
    add_steps(arrangements_[i]);
  }
  permutes();
  for (const std::vector<Step>& list : building_) {
    first_.push_back(static_cast<int32_t>(steps_.size()));
    steps_.insert(steps_.end(), list.begin(), list.end());
  }
  first_.push_back(static_cast<int32_t>(steps_.size()));
  building_.clear();
  arrangements_.clear();
}

Lattice::~Lattice() = default;

int32_t Lattice::find(const State& state) const {
  const auto it = ids_.find(state);
  return it == ids_.end() ? -1 : it->second;
}

void Lattice::enumerate(int atom, Arrangement& now) {
  if (states_.size() > kMostStates) return;
  if (atom == static_cast<int>(sizes_.size())) {
    const State state = now.state(rooms_.size(), sizes_.size());
    ids_.emplace(state, static_cast<int32_t>(states_.size()));
    states_.push_back(state);
    arrangements_.push_back(now);
    return;
  }
  enumerate(atom + 1, now);
  now.partial |= 1u << atom;
  enumerate(atom + 1, now);
  now.partial &= ~(1u << atom);
  for (int b = 0; b < static_cast<int>(rooms_.size()); ++b) {
    if (!fits(b, now.in_bin[b] | 1u << atom)) continue;
    // Atoms come in mesh order. Many of them stand in that order alone, or there would be too many.
    const int first = sizes_.size() > kFewAtoms ? now.length[b] : 0;
    for (int place = now.length[b]; place >= first; --place) {
      now.insert(b, place, atom);
      enumerate(atom + 1, now);
      now.remove(b, place);
    }
  }
}

void Lattice::add(const Arrangement& to, StepKind kind, int price_kind, uint32_t atoms,
                  uint32_t buffer) {
  const auto price = static_cast<uint16_t>(price_index(price_kind, atoms, buffer, sizes_.size()));
  const int32_t id = find(to.state(rooms_.size(), sizes_.size()));
  if (id >= 0) building_[at_].push_back({id, price, kind});
}

void Lattice::add_steps(const Arrangement& at) {
  const uint32_t all = (1u << sizes_.size()) - 1;
  const uint32_t replicated = all & ~at.split & ~at.partial;
  gathers(at);
  all_to_alls(at);
  to_partial(at);
  Arrangement now = at;
  appends(at, now, replicated, 0, 0, /*scatter=*/false);
  for (uint32_t done = at.partial; done; done = (done - 1) & at.partial) {
    now = at;
    now.partial &= ~done;
    add(now, StepKind::AllReduce, static_cast<int>(CollectiveKind::AllReduce), done, at.split);
    appends(at, now, done, 0, 0, /*scatter=*/true);
  }
}

// Some of the atoms at the minor ends become replicated.
void Lattice::gathers(const Arrangement& at) {
  const size_t bins = rooms_.size();
  std::array<int, kMaxBins> dropped{};
  while (true) {
    size_t b = 0;
    while (b < bins && dropped[b] == at.length[b]) dropped[b++] = 0;
    if (b == bins) return;
    ++dropped[b];
    Arrangement next = at;
    for (size_t d = 0; d < bins; ++d)
      for (int i = 0; i < dropped[d]; ++i) next.drop(static_cast<int>(d));
    add(next, StepKind::AllGather, static_cast<int>(CollectiveKind::AllGather),
        at.split & ~next.split, next.split);
  }
}

// Atoms of `left` are appended to bins, in every order: some of them by a slice of what was
// replicated, all of them where a sum is scattered.
void Lattice::appends(const Arrangement& at, Arrangement& now, uint32_t left, uint32_t taken,
                      int bin, bool scatter) {
  if (taken && !scatter) add(now, StepKind::AllSlice, kCopy, 0, now.split);
  if (!left && scatter)
    add(now, StepKind::ReduceScatter, static_cast<int>(CollectiveKind::ReduceScatter), taken,
        at.split);
  for (int b = bin; b < static_cast<int>(rooms_.size()); ++b)
    for (uint32_t a = 0; a < sizes_.size(); ++a) {
      if (!(left >> a & 1) || !fits(b, now.in_bin[b] | 1u << a)) continue;
      now.append(b, static_cast<int>(a));
      appends(at, now, left & ~(1u << a), taken | 1u << a, b, scatter);
      now.drop(b);
    }
}

// A block from the minor end of one bin to that of another; or two such blocks between four bins.
void Lattice::all_to_alls(const Arrangement& at) {
  const int bins = static_cast<int>(rooms_.size());
  auto blocks = [&](const Arrangement& now, int first, auto&& visit) {
    for (int from = first; from < bins; ++from)
      for (int count = 1; count <= now.length[from]; ++count)
        for (int to = 0; to < bins; ++to) {
          if (to == from) continue;
          uint32_t moved = 0;
          Arrangement next = now;
          for (int i = now.length[from] - count; i < now.length[from]; ++i)
            moved |= 1u << now.atoms[from][i];
          if (!fits(to, now.in_bin[to] | moved)) continue;
          for (int i = 0; i < count; ++i) next.drop(from);
          for (int i = now.length[from] - count; i < now.length[from]; ++i)
            next.append(to, now.atoms[from][i]);
          visit(next, moved, from, to);
        }
  };
  const int kind = static_cast<int>(CollectiveKind::AllToAll);
  blocks(at, 0, [&](const Arrangement& one, uint32_t moved, int from, int to) {
    add(one, StepKind::AllToAll, kind, moved, at.split);
    if (bins < 4) return;
    blocks(one, from + 1, [&](const Arrangement& two, uint32_t also, int from2, int to2) {
      if (from2 == to || to2 == to || to2 == from) return;
      add(two, StepKind::AllToAll, kind, moved | also, at.split);
    });
  });
}

void Lattice::to_partial(const Arrangement& at) {
  const uint32_t all = (1u << sizes_.size()) - 1;
  const uint32_t replicated = all & ~at.split & ~at.partial;
  for (uint32_t some = replicated; some; some = (some - 1) & replicated) {
    Arrangement next = at;
    next.partial |= some;
    add(next, StepKind::ReplicatedToPartial, kCopy, 0, at.split);
  }
  for (int b = 0; b < static_cast<int>(rooms_.size()); ++b) {
    Arrangement next = at;
    while (next.length[b] > 0) {
      next.partial |= 1u << next.drop(b);
      add(next, StepKind::ShardedToPartial, kCopy, 0, next.split);
    }
  }
}

// Between layouts with as many shards in every bin, and as many parts of a sum.
void Lattice::permutes() {
  auto product = [&](uint32_t atoms) {
    int64_t p = 1;
    for (size_t a = 0; a < sizes_.size(); ++a)
      if (atoms >> a & 1) p *= sizes_[a];
    return p;
  };
  std::map<std::vector<int64_t>, std::vector<int32_t>> groups;
  std::vector<std::array<std::pair<int, int64_t>, kMostAtoms>> places(states_.size());
  for (size_t i = 0; i < states_.size(); ++i) {
    const Arrangement& at = arrangements_[i];
    std::vector<int64_t> shards = {product(at.partial)};
    places[i].fill({-1, 1});
    for (size_t b = 0; b < rooms_.size(); ++b) {
      int64_t major = 1;
      for (int k = 0; k < at.length[b]; ++k) {
        places[i][at.atoms[b][k]] = {static_cast<int>(b), major};
        major *= sizes_[at.atoms[b][k]];
      }
      shards.push_back(major);
    }
    int64_t major = 1;
    for (size_t a = 0; a < sizes_.size(); ++a)
      if (at.partial >> a & 1) {
        places[i][a] = {-2, major};
        major *= sizes_[a];
      }
    groups[std::move(shards)].push_back(static_cast<int32_t>(i));
  }
  for (const auto& [shards, members] : groups)
    for (int32_t from : members)
      for (int32_t to : members) {
        if (from == to) continue;
        uint32_t changed = 0;
        for (size_t a = 0; a < sizes_.size(); ++a)
          if (places[from][a] != places[to][a]) changed |= 1u << a;
        const auto price =
            static_cast<uint16_t>(price_index(static_cast<int>(CollectiveKind::Permute), changed,
                                              arrangements_[from].split, sizes_.size()));
        building_[from].push_back({to, price, StepKind::CollectivePermute});
      }
}

}  // namespace cleave::reshard
