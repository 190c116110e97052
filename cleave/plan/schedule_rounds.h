#pragma once

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
  double model_gap = 0;  // of the sum that it was solved for
  bool is_first = true;  // it is the one with the least sum
};

// Looks for choices with shorter schedules. A Problem's cost is a sum, and a schedule is not; so
// tables are solved again and again with weights that come from the schedule of the last solution.
// What is on the critical chain counts in full, and what is hidden by how busy its stream is.
//
// Several searches run side by side, because each stays near where it begins: at the least sum, and
// at what is best if all communication is hidden that has something to hide behind. They do not
// depend on each other, so that the result does not depend on threads.
//
// All that it is given must outlive it.
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

  // Replaces the choice with the least sum by one with a shorter schedule, if one is found. `times`:
  // at which memory is looked at from the beginning.
  void shorten(ScheduledChoice& best, const std::vector<int>& times);

 private:
  // One search.
  struct Line {
    ScheduledChoice now;
    std::vector<double> critical;      // by demand: the share of its reshards that counts in full
    double inside = 1, across = 1;     // what hidden communication weighs beside computation
    bool is_laid = true;               // `now` has a schedule, which says what is critical
    bool has_ended = false;
    std::set<std::vector<int>> tried = {};
    // Of the last solve.
    solver::Solution solution = {};
    PlannerStats stats = {};
    std::vector<std::string> said = {};
  };

  std::vector<Line> first_lines(const ScheduledChoice& first) const;
  // Weights from the schedule of the last choice, and the choice that is best under them.
  void solve(Line& line) const;
  void run_round(std::vector<Line>& lines, int round);
  // Choices by class that are laid out, those that do not fit excepted.
  std::vector<ScheduledChoice> lay_out(const std::vector<std::vector<int>>& choices);
  // The better one of both, with what else the other one does better.
  void merge(ScheduledChoice& best, const ScheduledChoice& other);
  bool is_better(const ScheduledChoice& a, const ScheduledChoice& b) const;
  double next_weight(double weight, const analyze::StreamSchedule& laid,
                     analyze::Stream stream) const;
  // Of a second of hidden communication, what it costs the kernels beside it.
  double least_weight() const;
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
};

}  // namespace cleave::plan
