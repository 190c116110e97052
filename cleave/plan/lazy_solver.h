#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "cleave/plan/planner.h"
#include "cleave/plan/tables.h"

namespace cleave::plan {

// How long it has been going on.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Solves Tables with the memory rows that matter, found one solution after another: with little
// effort until a solution fits at all times, then with more if the gap asks for it. `clock`
// began with the planning, whose time is capped. All that it is given must outlive it.
class LazySolver {
 public:
  LazySolver(const Tables& tables, const PlannerOptions& options, const Stopwatch& clock,
             PlannerStats& stats, const TableWeights* weights = nullptr)
      : tables_(tables), options_(options), clock_(clock), stats_(stats), weights_(weights) {}

  // The solution, with `choice` by decision. `known`: a choice by class that fits, or none.
  solver::Solution run(std::optional<int64_t> limit, const std::vector<int>& known,
                       std::vector<int>& choice);

  // Whether no time was ever above the limit: the last solution is one for any larger limit too,
  // with its bound.
  bool is_free() const { return times_.empty(); }
  // Times at which memory was looked at: where another solver of the same tables may begin.
  const std::vector<int>& times() const { return times_; }
  void look_at(const std::vector<int>& times) { times_ = times; }
  // If the first search finds nothing, no other is tried.
  void give_up_early() { tried_smallest_ = true; }
  // If memory binds, a part of the first stage is all.
  void stop_if_bound() { stops_if_bound_ = true; }
  // The bound first, with what its rounding finds, and no search beside it: half of the work.
  void work_alone() { workers_ = 1; }
  // What a first stage may take, in seconds of two present-day cores.
  void begin_with(double seconds) { first_stage_ = seconds; }
  // Ends as soon as the gap is this small.
  void stop_within(double gap) { stop_gap_ = gap; }
  // Among these choices and those of `known` alone: the bound is then one for them.
  void look_among(KeptChoices kept) { kept_ = std::move(kept); }

 private:
  static constexpr double kFirstStage = 0.15;
  // A choice by class as strategies of a Problem, and back.
  std::vector<int> to_strategies(std::vector<int> choice) const;
  std::vector<int> to_choice(std::vector<int> strategies) const;
  solver::Problem problem(std::optional<int64_t> limit) const;
  solver::Solution as_solution(const solver::Problem& problem, const std::vector<int>& known) const;
  std::vector<int> start(const solver::Problem& problem, const std::vector<int>& known) const;
  solver::Solution solve_once(const solver::Problem& problem, const std::vector<int>& known,
                              std::uint64_t effort, std::optional<int64_t> limit);
  // Whether strategies of a Problem hold no more than the limit at any time.
  bool fits(const std::vector<int>& strategies, std::optional<int64_t> limit) const;
  // A choice by class that holds little: by weights on the times at which others held too much, not
  // by cost. None: it does not fit either.
  std::vector<int> smallest(int64_t limit);
  bool add_times(const std::vector<int64_t>& memory, int64_t limit);

  const Tables& tables_;
  const PlannerOptions& options_;
  const Stopwatch& clock_;
  PlannerStats& stats_;
  const TableWeights* weights_;
  std::vector<int> times_;
  bool tried_smallest_ = false;
  bool stops_if_bound_ = false;
  int workers_ = 2;
  double first_stage_ = kFirstStage;
  std::optional<double> stop_gap_;
  bool insists_ = false;  // all of the effort goes into finding anything
  std::optional<KeptChoices> kept_;
};

}  // namespace cleave::plan
