#include "cleave/reshard/reshard_moves.h"

#include <algorithm>

namespace cleave::reshard {
namespace {

constexpr int kTryAllAtoms = 3;  // with so few, every step is tried
constexpr int kFreeSlices = 3;   // up to so many replicated atoms are sliced anywhere
constexpr int kMostGathersInto = 600;

void append(State& state, Layout& layout, int atom, int64_t size, int bin) {
  state.set(atom, bin, bin >= kTargetPartial ? 0 : layout.length[bin]);
  layout.atoms[bin][layout.length[bin]++] = static_cast<uint8_t>(atom);
  layout.shards[bin] *= size;
}

}  // namespace

struct Moves::Open {
  State state;
  Layout layout;
  double bytes;
};

void Moves::set_target(const State& target, int partial_bin) {
  target_ = target;
  has_target_ = true;
  target_partial_bin_ = partial_bin;
  target_partial_ = 0;
  for (int a = 0; a < space_.num_atoms(); ++a)
    if (target.bin(a) == partial_bin) target_partial_ |= 1u << a;
}

void Moves::forward(const State& state, bool was_sliced, std::vector<Move>& out) {
  Open at{state, space_.layout_of(state), 0};
  at.bytes = space_.bytes(at.layout);
  if (!was_sliced) slices(at, at.state, at.layout, 0, 0, out);
  reductions(at, out);
  drop_suffixes(at, true, out);
  all_to_alls(at, true, out);
  if (target_partial_) to_partial(at, out);
}

void Moves::backward(const State& state, bool was_gathered, std::vector<Move>& out) {
  Open at{state, space_.layout_of(state), 0};
  at.bytes = space_.bytes(at.layout);
  drop_suffixes(at, false, out);
  all_to_alls(at, false, out);
  if (!was_gathered) gathers_into(at, out);
  if (target_partial_) from_partial(at, out);
}

std::array<int, kMaxBins> Moves::settled(const Open& at) const {
  std::array<int, kMaxBins> count{};
  if (!has_target_ || may_undo_ || space_.num_atoms() <= kTryAllAtoms) return count;
  const Layout target = space_.layout_of(target_);
  for (int b = 0; b < space_.num_bins(); ++b) {
    if (space_.bin_size(b) % target.shards[b] != 0) continue;
    if (space_.bin_size(b) % at.layout.shards[b] != 0) continue;
    while (count[b] < at.layout.length[b] && count[b] < target.length[b] &&
           at.layout.atoms[b][count[b]] == target.atoms[b][count[b]])
      ++count[b];
  }
  return count;
}

// Every choice of atoms at the minor ends of the dimensions, made replicated: what an all_gather
// does going forward, and what a slice undoes going backward.
void Moves::drop_suffixes(const Open& at, bool gather, std::vector<Move>& out) {
  const int bins = space_.num_bins();
  const std::array<int, kMaxBins> stay = gather ? settled(at) : std::array<int, kMaxBins>{};
  std::array<int, kMaxBins> keep;
  for (int b = 0; b < bins; ++b) keep[b] = at.layout.length[b];
  while (true) {
    int b = 0;
    while (b < bins && keep[b] == stay[b]) keep[b] = at.layout.length[b], ++b;
    if (b == bins) return;
    --keep[b];

    State next = at.state;
    Layout layout = at.layout;
    uint32_t mask = 0;
    bool valid = true;
    for (int d = 0; d < bins && valid; ++d) {
      int64_t ratio = 1;
      for (int i = keep[d]; i < at.layout.length[d]; ++i) {
        const int atom = at.layout.atoms[d][i];
        next.set(atom, kReplicated, 0);
        mask |= 1u << atom;
        ratio *= space_.atom(atom).size;
      }
      if (ratio == 1) continue;
      layout.shards[d] /= ratio;
      valid = chunks_nest(space_.bin_size(d), layout.shards[d], ratio);
    }
    if (!valid) continue;
    const double bytes = space_.bytes(layout);
    if (!fits(at.bytes, bytes)) continue;
    if (gather)
      out.push_back(
          {StepKind::AllGather, next, space_.seconds(CollectiveKind::AllGather, mask, bytes)});
    else
      out.push_back({StepKind::AllSlice, next, copy_seconds(at.bytes, profile_)});
  }
}

// Whether the finer layout nests in the coarser one in every dimension.
bool Moves::slices_nest(const Layout& coarse, const Layout& fine) const {
  for (int b = 0; b < space_.num_bins(); ++b)
    if (!chunks_nest(space_.bin_size(b), coarse.shards[b], fine.shards[b] / coarse.shards[b]))
      return false;
  return true;
}

void Moves::slices(const Open& at, const State& state, const Layout& layout, int first_bin,
                   int depth, std::vector<Move>& out) {
  if (depth == kFreeSlices + 2) return;
  const bool free = layout.length[kReplicated] <= kFreeSlices || !has_target_;
  for (int a = 0; a < space_.num_atoms(); ++a) {
    if (state.bin(a) != kReplicated) continue;
    for (int b = first_bin; b < space_.num_bins(); ++b) {
      if (!free && target_.bin(a) != b) continue;
      State next = state;
      Layout next_layout = layout;
      append(next, next_layout, a, space_.atom(a).size, b);
      const double bytes = space_.bytes(next_layout);
      if (fits(at.bytes, bytes) && slices_nest(at.layout, next_layout))
        out.push_back({StepKind::AllSlice, next, copy_seconds(bytes, profile_)});
      slices(at, next, next_layout, b, depth + 1, out);
    }
  }
}

// Moves a block of atoms from the minor end of one dimension to that of another, or two such blocks
// between four dimensions. A block moved back is a block moved, so both directions share this.
void Moves::all_to_alls(const Open& at, bool forward, std::vector<Move>& out) {
  const std::array<int, kMaxBins> stay = forward ? settled(at) : std::array<int, kMaxBins>{};
  struct Block {
    State state;
    uint32_t mask;
    int from, to;
    Layout layout;
  };
  auto blocks = [&](const State& state, const Layout& layout, int first_from, auto&& visit) {
    for (int from = first_from; from < space_.num_bins(); ++from) {
      int64_t ratio = 1;
      uint32_t mask = 0;
      for (int i = layout.length[from] - 1; i >= stay[from]; --i) {
        ratio *= space_.atom(layout.atoms[from][i]).size;
        mask |= 1u << layout.atoms[from][i];
        if (!chunks_nest(space_.bin_size(from), layout.shards[from] / ratio, ratio)) continue;
        for (int to = 0; to < space_.num_bins(); ++to) {
          if (to == from || !chunks_nest(space_.bin_size(to), layout.shards[to], ratio)) continue;
          Block block{state, mask, from, to, layout};
          for (int j = i; j < layout.length[from]; ++j)
            append(block.state, block.layout, layout.atoms[from][j], 1, to);
          block.layout.shards[to] *= ratio;
          block.layout.shards[from] /= ratio;
          block.layout.length[from] = static_cast<uint8_t>(i);
          visit(block);
        }
      }
    }
  };
  auto emit = [&](const State& state, const Layout& layout, uint32_t mask) {
    const double bytes = space_.bytes(layout);
    if (!fits(at.bytes, bytes)) return;
    const double buffer = std::max(at.bytes, bytes);
    out.push_back(
        {StepKind::AllToAll, state, space_.seconds(CollectiveKind::AllToAll, mask, buffer)});
  };
  blocks(at.state, at.layout, 0, [&](const Block& one) {
    emit(one.state, one.layout, one.mask);
    if (space_.num_bins() < 4) return;
    blocks(one.state, one.layout, one.from + 1, [&](const Block& two) {
      if (two.from == one.to || two.to == one.to || two.to == one.from) return;
      emit(two.state, two.layout, one.mask | two.mask);
    });
  });
}

// Completes some of the partial atoms: each is kept, made replicated (all_reduce) or appended to a
// dimension (reduce_scatter). One step does one or the other.
void Moves::reductions(const Open& at, std::vector<Move>& out) {
  const int count = at.layout.length[kPartial];
  if (count == 0) return;
  const auto& atoms = at.layout.atoms[kPartial];
  for (uint32_t chosen = 1; chosen < 1u << count; ++chosen) {
    State next = at.state;
    uint32_t mask = 0;
    for (int i = 0; i < count; ++i)
      if (chosen >> i & 1) {
        next.set(atoms[i], kReplicated, 0);
        mask |= 1u << atoms[i];
      }
    if (has_target_ && (mask & target_partial_) && target_partial_bin_ == kPartial) continue;
    if (fits(at.bytes, at.bytes))
      out.push_back(
          {StepKind::AllReduce, next, space_.seconds(CollectiveKind::AllReduce, mask, at.bytes)});
    // Every assignment of the chosen atoms to dimensions, those of one dimension in the target's
    // order.
    std::vector<int> order;
    for (int i = 0; i < count; ++i)
      if (chosen >> i & 1) order.push_back(atoms[i]);
    if (has_target_)
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return target_.place(a) < target_.place(b); });
    std::vector<int> bin(order.size(), 0);
    while (true) {
      State scattered = at.state;
      Layout layout = at.layout;
      const bool any_bin = space_.num_bins() > 0;
      for (size_t i = 0; i < order.size() && any_bin; ++i)
        append(scattered, layout, order[i], space_.atom(order[i]).size, bin[i]);
      if (any_bin && slices_nest(at.layout, layout) && fits(at.bytes, space_.bytes(layout)))
        out.push_back({StepKind::ReduceScatter, scattered,
                       space_.seconds(CollectiveKind::ReduceScatter, mask, at.bytes)});
      size_t i = 0;
      while (i < bin.size() && ++bin[i] >= space_.num_bins()) bin[i++] = 0;
      if (i == bin.size()) break;
    }
  }
}

// Local steps that make atoms partial as the target wants them.
void Moves::to_partial(const Open& at, std::vector<Move>& out) {
  if (target_partial_bin_ != kPartial && at.layout.length[kPartial] > 0) return;
  State all = at.state;
  bool any = false;
  for (int a = 0; a < space_.num_atoms(); ++a)
    if ((target_partial_ >> a & 1) && at.state.bin(a) == kReplicated) {
      all.set(a, target_partial_bin_, 0);
      any = true;
    }
  if (any && fits(at.bytes, at.bytes))
    out.push_back({StepKind::ReplicatedToPartial, all, copy_seconds(at.bytes, profile_)});
  if (!space_.can_pad()) return;
  for (int b = 0; b < space_.num_bins(); ++b) {
    State next = at.state;
    Layout layout = at.layout;
    int64_t ratio = 1;
    for (int i = at.layout.length[b] - 1; i >= 0; --i) {
      const int atom = at.layout.atoms[b][i];
      if (!(target_partial_ >> atom & 1)) break;
      next.set(atom, target_partial_bin_, 0);
      ratio *= space_.atom(atom).size;
      layout.shards[b] = at.layout.shards[b] / ratio;
      if (!chunks_nest(space_.bin_size(b), layout.shards[b], ratio)) continue;
      const double bytes = space_.bytes(layout);
      if (fits(at.bytes, bytes))
        out.push_back({StepKind::ShardedToPartial, next, copy_seconds(bytes, profile_)});
    }
  }
}

// Backward: the states from which an all_gather leads here.
void Moves::gathers_into(const Open& at, std::vector<Move>& out) {
  std::vector<int> atoms;
  for (int i = 0; i < at.layout.length[kReplicated]; ++i)
    atoms.push_back(at.layout.atoms[kReplicated][i]);
  int choices = 0;
  std::vector<int> bin(atoms.size(), -1);
  while (true) {
    size_t i = 0;
    while (i < bin.size() && ++bin[i] >= space_.num_bins()) bin[i++] = -1;
    if (i == bin.size() || ++choices > kMostGathersInto) return;
    State next = at.state;
    Layout layout = at.layout;
    uint32_t mask = 0;
    for (size_t k = 0; k < atoms.size(); ++k)
      if (bin[k] >= 0) {
        append(next, layout, atoms[k], space_.atom(atoms[k]).size, bin[k]);
        mask |= 1u << atoms[k];
      }
    if (slices_nest(at.layout, layout) && fits(at.bytes, space_.bytes(layout)))
      out.push_back(
          {StepKind::AllGather, next, space_.seconds(CollectiveKind::AllGather, mask, at.bytes)});
  }
}

// Backward: partial atoms of the target that were replicated, or at the minor end of a dimension.
void Moves::from_partial(const Open& at, std::vector<Move>& out) {
  std::vector<int> atoms;
  for (int a = 0; a < space_.num_atoms(); ++a)
    if ((target_partial_ >> a & 1) && at.state.bin(a) == target_partial_bin_) atoms.push_back(a);
  for (uint32_t chosen = 1; chosen < 1u << atoms.size() && fits(at.bytes, at.bytes); ++chosen) {
    State next = at.state;
    for (size_t i = 0; i < atoms.size(); ++i)
      if (chosen >> i & 1) next.set(atoms[i], kReplicated, 0);
    out.push_back({StepKind::ReplicatedToPartial, next, copy_seconds(at.bytes, profile_)});
  }
  for (int a : atoms) {
    for (int b = 0; b < space_.num_bins() && space_.can_pad(); ++b) {
      State next = at.state;
      Layout layout = at.layout;
      append(next, layout, a, space_.atom(a).size, b);
      if (slices_nest(at.layout, layout) && fits(at.bytes, space_.bytes(layout)))
        out.push_back({StepKind::ShardedToPartial, next, copy_seconds(at.bytes, profile_)});
    }
  }
}

}  // namespace cleave::reshard
