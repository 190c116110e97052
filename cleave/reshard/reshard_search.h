#pragma once

#include <optional>

#include "cleave/reshard/reshard_moves.h"

namespace cleave::reshard {

// A state on the way, with the step that leads to it; `space` 0 is the source's, 1 the target's.
struct PathStep {
  StepKind kind;
  int space;
  State state;
};

struct Path {
  std::vector<PathStep> steps;
  double seconds = 0;
  bool cut = false;  // the search ended at its limit of states
};

struct SearchProblem {
  Space* source;
  Space* target;  // the same if both specs are over one list of atoms
  State from;
  State to;
  int target_partial_bin = kPartial;
  double memory = 0;
  int max_states = 0;

  bool has_target_partial() const {
    for (uint8_t code : to.code)
      if (code >> 4 == target_partial_bin) return true;
    return false;
  }
};

// The cheapest path with at most one permute. Best first from the source by every step but
// permutes, with lower bounds on what must follow (a step, and gathers for the bytes that shards
// lack); then backwards from the target, as far as a permute could still pay; then the cheapest
// permute between states that have as many shards in every dimension. One permute is enough: a
// second one can be moved up to the first through the steps between them by exchanging the names of
// atoms. Ties go to fewer steps, then to the state that was found first.
std::optional<Path> find_path(const SearchProblem& problem, const MachineProfile& profile);

}  // namespace cleave::reshard
