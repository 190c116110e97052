#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "cleave/solve/problem.h"

namespace cleave::solver {

// What an observer hears while a solve runs. It is called from the thread that called solve().
struct Progress {
  std::string phase;  // "reduce", "dual", "search", "finish"
  double seconds = 0;
  double work = 0;        // fraction of the effort that is spent
  bool feasible = false;  // whether `cost` means anything
  Int128 cost = 0;
  Int128 lower_bound = 0;
};

struct SolveOptions {
  // Work units to spend at most (about a million elementary table operations each). 0:
  // default_effort(time_limit). The result depends on the problem, the
  // seed, the effort and the workers; not on `threads`, nor on the machine.
  std::uint64_t effort = 0;
  // A solution this close to its bound (as a fraction of its cost) is good enough. With
  // `first_effort`, the effort is spent in stages: that much first, then twice as much as before as
  // long as the gap is larger.
  double gap = 0;
  std::uint64_t first_effort = 0;
  // Of the first stage, what is spent even if the gap is small enough before.
  double enough = 0.6;
  // Asked before each further stage, with the best choice so far (empty: none): whether it is worth
  // it. Nothing: always.
  std::function<bool(const std::vector<int>& choice)> go_on = {};
  // A choice to begin with, if it is feasible: what comes back is at least as good.
  std::vector<int> start = {};
  // A cap in seconds on the wall clock. When it is what ended the solve (or hurried it), the result
  // says `effort_cut` and may differ from run to run.
  double time_limit = 60;
  std::uint64_t seed = 0;
  int threads = 2;
  // Searches that run side by side and exchange results at fixed points.
  int workers = 2;
  // Whether a small remainder may go to branch and bound and to the MIP library.
  bool exact = true;
  std::function<void(const Progress&)> observer = {};
  std::stop_token stop = {};
};

// The work that the default two workers on two present-day cores do in nine tenths of that time.
std::uint64_t default_effort(double seconds);

struct Solution {
  bool feasible = false;
  // With `feasible`: no solution is cheaper. Without: no solution exists. Otherwise none was found.
  bool proven = false;
  bool effort_cut = false;  // the clock or a stop request ended it, not the effort
  std::vector<int> choice;  // a strategy for each node; empty unless feasible
  Int128 cost = 0;
  Int128 lower_bound = 0;  // no solution costs less
  double seconds = 0;
  std::uint64_t work = 0;
  std::string reason;  // why nothing is feasible, or how the proof went

  // (cost - lower_bound) / cost; 0 for a proven optimum.
  double gap() const;
};

// The cheapest choice that can be found, and a proof of how far it is from the best.
//
//   Solution s = solve(problem, {.time_limit = 10, .seed = 7});
//   if (!s.feasible) fmt::print("{}\n", s.proven ? "there is no solution" : "none found");
Solution solve(const Problem& problem, const SolveOptions& options = {});

}  // namespace cleave::solver
