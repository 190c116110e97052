#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cleave/plan/choice_schedule.h"
#include "cleave/plan/lazy_solver.h"

namespace cleave::plan {

// A choice by decision, and the step that it makes.
struct ScheduledChoice {
  std::vector<int> choice;
  analyze::StreamSchedule schedule;
  // Of the sums that were solved, that under which it is closest to the bound of the sum: how far.
  double model_gap = 0;
  bool is_first = true;  // it is the one with the least sum
};

// Looks for choices with shorter schedules. A Problem's cost is a sum, and a schedule is not; so
// tables are solved again and again with weights that come from the schedule of the last solution.
// What is on the critical chain counts in full, and what is hidden by how busy its stream is.
//
// Two searches run side by side, because each stays near where it begins: at the least sum, and at
// what is best if all communication is hidden that has something to hide behind. Whatever they find
// is merged with the best choice so far: two choices differ in parts that do not touch each other
// (the weights of a product, a norm), and each part is tried by itself.
//
// Solves look among choices that messages rank first, so that they are small (keep_choices).
//
// Searches and trials do not depend on each other, so that the result does not depend on threads.
// All that this is given must outlive it.
class ScheduleRounds {
 public:
  ScheduleRounds(const Formulation& formulation, const Tables& tables, ChoiceSchedules& schedules,
                 const PlannerOptions& options, const Stopwatch& clock, PlannerStats& stats)
      : formulation_(formulation),
        tables_(tables),
        schedules_(schedules),
        options_(options),
        clock_(clock),
        stats_(stats) {}

  // Bounds what can be bounded before any choice is known: while that is looked for.
  void bound_early();

  // Replaces the choice with the least sum by one with a shorter schedule, if one is found.
  // `times`: at which memory is looked at from the beginning. Returns seconds that no schedule is
  // shorter than, up to `slack` for rounding: 0 if no time was left to find out.
  double shorten(ScheduledChoice& best, const std::vector<int>& times, double slack);

 private:
  // A solve with weights of its own.
  struct Solve {
    std::vector<int> choice = {};  // where it begins (empty: anywhere), and what it finds
    TableWeights weights = {};
    solver::Solution solution = {};
    PlannerStats stats = {};
    std::vector<std::string> said = {};
  };
  // One search.
  struct Line {
    ScheduledChoice now;
    std::vector<double> critical;   // by demand: the share of its reshards that counts in full
    double inside = 1, across = 1;  // what hidden communication weighs beside computation
    bool is_laid = true;            // `now` has a schedule, which says what is critical
    bool has_ended = false;
    std::set<std::vector<int>> tried = {};
    Solve solve = {};
  };
  // A sum that no schedule is shorter than, for every choice, once it is divided.
  struct BoundSum {
    std::vector<ReshardWeights> by_demand;
    std::vector<double> by_op;  // empty: once each
    double divisor = 1;
  };

  std::vector<Line> first_lines(const ScheduledChoice& first) const;
  TableWeights weigh(const std::vector<double>& critical, double inside, double across) const;
  // Choices that are worth a look under any of several weights, and `first`.
  void keep_choices(const std::vector<Line>& lines, const ScheduledChoice& first);
  // Weights from the schedule of the last choice, and the choice that is best under them.
  void go_on(Line& line) const;
  // Among the kept choices, unless `everything` is looked at. `stop` stands for the caller's.
  void run(Solve& solve, std::optional<int64_t> limit, bool everything,
           std::stop_token stop = {}) const;
  // Keeps what was said and counted meanwhile, and the bound of a sum over all choices.
  void note(Solve& solve, bool everything);
  double gap(const std::vector<int>& choice) const;
  void run_round(std::vector<Line>& lines, int round);
  // Everything counts as it does in the schedule of `best`, and what is not communicated yet as if
  // it were exposed. A choice that is better so is merged; what it exposes counts in full from then
  // on.
  void settle(ScheduledChoice& best);
  // What `best` communicates counts as it does in its schedule: what is on the critical chain with
  // the time that it takes there, the rest with what it slows kernels by. Any other reshard in its
  // place is hidden as far as that one is, times a share by demand, and takes what is left alone.
  // What is not communicated takes what it takes alone.
  TableWeights own_sum(const ScheduledChoice& best, const std::vector<double>& hides) const;
  // Solves that sum, over all choices in the end, until `best` is as good as the best under it. A
  // choice that is better is merged; what its own schedule exposes hides no more from then on.
  void hold(ScheduledChoice& best);
  // Both, and solves for the bounds beside them.
  double finish(ScheduledChoice& best, double slack);
  BoundSum work_of_streams() const;
  std::vector<BoundSum> bound_sums(const analyze::StreamSchedule& laid) const;
  // Choices by class with their schedules, which may be a little too long; an endless one if they
  // do not fit.
  std::vector<ScheduledChoice> lay_out(const std::vector<std::vector<int>>& choices,
                                       const ScheduledChoice& base);
  // Choices by class that were laid out, and how long their steps take.
  std::map<std::vector<int>, double> laid_;
  // The better one of both, with what else the other one does better.
  void merge(ScheduledChoice& best, const ScheduledChoice& other);
  double next_weight(double weight, const analyze::StreamSchedule& laid,
                     analyze::Stream stream) const;
  // Of a second of hidden communication, what it costs the kernels beside it.
  double least_weight() const;
  void trace(const std::string& line) const {
    if (options_.trace) options_.trace(line);
  }
  bool is_late() const {
    return options_.stop.stop_requested() || clock_.seconds() > options_.time_limit;
  }

  const Formulation& formulation_;
  const Tables& tables_;
  ChoiceSchedules& schedules_;
  const PlannerOptions& options_;
  const Stopwatch& clock_;
  PlannerStats& stats_;
  std::vector<int> times_;
  KeptChoices kept_;
  bool are_few_ = false;        // the kept ones: a look among them first saves time
  std::optional<Solve> early_;  // of work_of_streams()
  // Sums that were solved: their weights, and seconds that no choice takes less than.
  std::vector<std::pair<TableWeights, double>> models_;
};

}  // namespace cleave::plan
