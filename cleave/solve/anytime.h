#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cleave/solve/budget.h"
#include "cleave/solve/model.h"
#include "cleave/solve/search.h"

namespace cleave::solver {

// What the dual and the searches have found so far.
struct Findings {
  Incumbent incumbent;
  double bound = 0;              // certified; every solution costs at least this
  std::vector<double> prices;    // of the best bound
  std::vector<double> messages;  // as Messages::raw, of the last sweep
  bool dual_paused = false;      // the dual has not come to its end
  AlignedVector<double> with;    // for each strategy a bound on the solutions that take it
};

struct AnytimeOptions {
  std::uint64_t seed = 0;
  int threads = 2;
  int workers = 2;
  // Return when the dual has converged and this many rounds found nothing; 0: never.
  int patience = 0;
  // Return as soon as the dual has converged.
  bool dual_only = false;
  // No dual: `prices` are final.
  bool search_only = false;
  // Searches that start apart; the worse half goes again and again until each worker has one.
  int lineages = 0;
  // Return when this fraction of the budget is spent; the dual has that much at most.
  double until = 1;
  double dual_until = 0.45;
  double pause = 0;              // with dual_only: return when the gap is below this
  double gap = 0;                // return when the gap is down to this fraction of the cost
  double bound = 0;              // known from before
  std::vector<double> prices;    // known from a similar model; empty: none
  std::vector<double> messages;  // likewise, as Messages::raw
  std::vector<int> x;            // a solution to start from; empty: none
  const AlignedVector<double>* with = nullptr;  // bounds by strategy, as in Findings
  // Called between rounds, with what is known.
  std::function<void(const char* phase, const Findings&)> observe;
};

// Dual and searches side by side, in rounds: within a round each worker works alone for a fixed
// amount of work, between rounds they exchange solutions and prices in a fixed order. Returns when
// the budget is spent, the gap is closed, or patience is gone.
Findings run_anytime(const Model& model, const AnytimeOptions& options, Budget& budget);

}  // namespace cleave::solver
