#pragma once

#include "cleave/reshard/reshard.h"
#include "cleave/reshard/reshard_space.h"

// The single steps of the reshard search. Internal to cleave/reshard.

namespace cleave::reshard {

// One step between two states: `state` is the other end.
struct Move {
  StepKind kind;
  State state;
  double seconds;
};

// Generates moves out of (forward) and into (backward) states. Permutes are not among them: the
// search joins both directions by one permute.
class Moves {
 public:
  Moves(Space& space, const MachineProfile& profile, double memory)
      : space_(space), profile_(profile), memory_(memory) {}

  // Atoms that the target holds partial may become so by a local step; `bin` is where they go.
  void set_target(const State& target, int partial_bin);

  // Lets steps undo what already is as in the target.
  void allow_undoing() { may_undo_ = true; }

  // Every step out of `state` that does not undo what already is as in the target. One that was
  // reached by a slice is not sliced again: slices of several axes and dimensions are one step.
  void forward(const State& state, bool was_sliced, std::vector<Move>& out);
  // Every step into `state` that may follow a permute.
  void backward(const State& state, bool was_gathered, std::vector<Move>& out);

 private:
  struct Open;  // the state whose moves are generated

  bool fits(double before, double after) const { return before + after <= memory_; }
  bool slices_nest(const Layout& coarse, const Layout& fine) const;
  // How many atoms of each dimension stand as in the target, from the major end, with nothing
  // uneven that could force them to move.
  std::array<int, kMaxBins> settled(const Open& at) const;
  void drop_suffixes(const Open& at, bool gather, std::vector<Move>& out);
  void slices(const Open& at, const State& state, const Layout& layout, int first_bin, int depth,
              std::vector<Move>& out);
  void all_to_alls(const Open& at, bool forward, std::vector<Move>& out);
  void reductions(const Open& at, std::vector<Move>& out);
  void to_partial(const Open& at, std::vector<Move>& out);
  void gathers_into(const Open& at, std::vector<Move>& out);
  void from_partial(const Open& at, std::vector<Move>& out);

  Space& space_;
  const MachineProfile& profile_;
  double memory_;
  State target_;
  uint32_t target_partial_ = 0;  // atoms
  int target_partial_bin_ = kPartial;
  bool has_target_ = false;
  bool may_undo_ = false;
};

}  // namespace cleave::reshard
