#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cleave/analyze/schedule.h"
#include "cleave/plan/formulation.h"

namespace cleave::plan {

// The schedules of choices (analyze/schedule.h), straight from a formulation: what the Program of
// the choice is laid out as, without making the Program. Everything that it is given must outlive
// it.
class ChoiceSchedules {
 public:
  ChoiceSchedules(const Graph& flat, const std::string& entry, const Formulation& formulation,
                  Layouts& layouts, int64_t trips);

  // Of the branches of a condition, those count that have weight.
  analyze::StreamSchedule lay_out(const std::vector<int>& choice) { return lay_out(work(choice)); }
  // The same in two steps, of which the second may run on several threads.
  analyze::Work work(const std::vector<int>& choice);
  analyze::StreamSchedule lay_out(const analyze::Work& work) const {
    return analyze::lay_out(work, options_);
  }
  const analyze::StreamOptions& options() const { return options_; }

  // Whether schedules are those of Programs. They are not if the module has manual computations,
  // whose bodies are taken as one piece of computation and one of communication, or if the scalar
  // code of an op sees values from outside, for which it is not made to wait.
  bool is_exact() const { return is_exact_; }

  // By demand: how much of its reshards is on the critical chain of the schedule. If the choice has
  // none there, one would be on it if nothing is computed between the op that makes the value and
  // the one that wants it.
  std::vector<double> criticality(const std::vector<int>& choice,
                                  const analyze::StreamSchedule& schedule) const;

  // By demand: 1 if nothing is computed between the op that makes the value and the one that wants
  // it, 0 if that takes as long as a typical reshard of the schedule.
  std::vector<double> closeness(const std::vector<int>& choice,
                                const analyze::StreamSchedule& schedule) const;

 private:
  // The reshard of one demand under the choice: its tasks, that wait for each other.
  const std::vector<analyze::Task>& steps(SpecId from, SpecId to, int version);
  void region(RegionId id);
  void visit(NodeId id);
  void between(NodeId id, const std::vector<std::pair<RegionId, double>>& parts);
  void add_copies(const std::vector<int>& demands);
  void add_op(int op);
  // Returns the task after which the value is there.
  int add_reshard(int demand, SpecId to, double weight);
  int add(analyze::Task task);
  void begin_stretch();
  int maker(int version) const;
  static double seconds_of(const FormulatedOp& op, const std::vector<int>& choice);
  SpecId spec(int version) const { return formulation_.spec(version, *choice_); }

  const Graph& flat_;
  const RegionId body_;
  const Formulation& formulation_;
  Layouts& layouts_;
  const int64_t trips_;
  const analyze::StreamOptions options_;
  bool is_exact_ = true;
  std::vector<int> op_of_;                         // by node; -1: none
  std::vector<std::vector<int>> demands_of_;       // by op: the demand of each operand; -1: none
  std::vector<std::vector<int>> copies_before_;    // by node: demands of copies
  std::vector<std::vector<int>> copies_after_;     // by node
  std::map<uint32_t, std::vector<int>> at_start_;  // by region
  std::vector<int> type_of_;                       // by version
  std::map<std::tuple<SpecId, SpecId, int>, std::vector<analyze::Task>> steps_;
  analyze::Work groups_;  // holds what collectives are alike, for all choices
  analyze::CollectiveTasks collectives_;

  const std::vector<int>* choice_ = nullptr;
  analyze::Work* work_ = nullptr;
  int stretch_ = 0, stretches_ = 0;
  std::vector<std::pair<int, int>> made_by_;  // by version: stretch and task
};

}  // namespace cleave::plan
