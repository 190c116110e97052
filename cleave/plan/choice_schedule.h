#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
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
  analyze::StreamSchedule lay_out(const std::vector<int>& choice, int threads = 1) {
    analyze::StreamOptions options = options_;
    options.threads = threads;
    return analyze::lay_out(work(choice), options);
  }
  // The same in two steps. Both may run on several threads, as long as nothing else uses `layouts`.
  analyze::Work work(const std::vector<int>& choice);
  analyze::StreamSchedule lay_out(const analyze::Work& work) const {
    return analyze::lay_out(work, options_);
  }
  // Half of the work, and as short or longer: kernels are not tried in the order of the program,
  // and what is exposed is not found out.
  analyze::StreamSchedule lay_out_ahead(const std::vector<int>& choice) {
    analyze::StreamOptions options = options_;
    options.tries_in_order = options.window == 1;
    options.explains = false;
    return analyze::lay_out(work(choice), options);
  }
  const analyze::StreamOptions& options() const { return options_; }

  // Whether schedules are those of Programs. They are not if the module has manual computations,
  // whose bodies are taken as one piece of computation and one of communication, or if the scalar
  // code of an op sees values from outside, for which it is not made to wait.
  bool is_exact() const { return is_exact_; }

  // By op: 1 if it is computed on the stream of kernels in every schedule, or `aside` if it may run
  // on a stream of collectives (StreamOptions::prepares_aside). Empty: 1 for all.
  std::vector<double> compute_shares(double aside) const;
  // Whether a version may depend on arguments alone, as far as a schedule can tell.
  bool is_early(int version) const { return is_early_[formulation_.versions[version].value.index]; }

  // By demand: how much of its reshards is on the critical chain of the schedule. If the choice has
  // none there, one would be on it if nothing is computed between the op that makes the value and
  // the one that wants it (`is_hopeful`), or in any case.
  std::vector<double> criticality(const std::vector<int>& choice,
                                  const analyze::StreamSchedule& schedule,
                                  bool is_hopeful = true) const;

  // By demand: the share of its reshards that is on the critical chain; -1 if it has none.
  std::vector<double> critical_shares(const analyze::StreamSchedule& schedule) const;

  // By demand: seconds of its reshards on the critical chain, of a second that they take alone; 1
  // if it has none. Collectives that run as one take less than alone.
  std::vector<double> scheduled_shares(const std::vector<int>& choice,
                                       const analyze::StreamSchedule& schedule);

  // By demand: 1 if nothing is computed between the op that makes the value and the one that wants
  // it, 0 if that takes as long as a typical reshard of the schedule.
  std::vector<double> closeness(const std::vector<int>& choice,
                                const analyze::StreamSchedule& schedule) const;

 private:
  class Filling;
  // The reshard of a version: its tasks, that wait for each other.
  const std::vector<analyze::Task>& steps(SpecId from, SpecId to, int version);
  // What it takes to write a version that is in no memory, before it is resharded.
  double spill(int version, const std::vector<int>& choice);
  double seconds_of(size_t op, const std::vector<int>& choice) const {
    return seconds_[seconds_at_[op]][choice[formulation_.ops[op].decision]];
  }
  void find_demands();
  void find_ends();
  void find_seconds();
  void find_silent();
  void find_shown(RegionId region);

  const Graph& flat_;
  const RegionId body_;
  const Formulation& formulation_;
  Layouts& layouts_;
  const int64_t trips_;
  const analyze::StreamOptions options_;
  bool is_exact_ = true;
  std::vector<int> op_of_;  // by node; -1: none, or one that no schedule shows
  // What an op waits for: a version, as it is or as a demand wants it.
  struct Wait {
    int version;
    int demand;  // -1: as it is
  };
  std::vector<std::vector<Wait>> waits_of_;        // by op
  std::vector<std::vector<int>> makes_;            // by op: versions that it leaves
  std::vector<int> same_as_;                       // by version: one that is there when this is
  std::vector<int> seconds_at_;                    // by op: a place of seconds_
  std::vector<std::vector<double>> seconds_;       // by choice of the op's decision
  std::vector<std::vector<int>> copies_before_;    // by node: demands of copies
  std::vector<std::vector<int>> copies_after_;     // by node
  std::map<uint32_t, std::vector<int>> at_start_;  // by region
  // Between which layouts a demand asks for a reshard, by choices of two decisions.
  struct Ends {
    const SpecId *from, *to;
    int from_decision, to_decision;
    int version;  // after which it begins
    int branch;
    bool spills;

    bool differ() const { return from != to || from_decision != to_decision; }
  };
  std::vector<Ends> ends_;  // by demand
  // What schedules show, in the order of the program and close together: there are tens of
  // thousands of ops, and dozens of schedules.
  struct Shown {
    enum Kind : uint8_t { Copy, Op, Regions } kind;
    int id;  // a demand, an op, or a node
    int decision = 0, branch = -1;
    const double* seconds = nullptr;  // of an op, by choice of the decision
    double sent = 0;                  // of an op: by collectives of its own
    // Of a copy: itself alone is made.
    int first_wait = 0, num_waits = 0, first_made = 0, num_made = 0;
  };
  Shown shown_op(int op);
  std::map<uint32_t, std::vector<Shown>> shown_;  // by region
  std::vector<Wait> waits_;
  std::vector<int> made_;
  std::atomic<size_t> most_tasks_ = 0;  // of a stretch so far
  std::vector<int> type_of_;            // by version
  std::vector<bool> is_early_;          // by value
  std::mutex mutex_;                    // of what follows, and of layouts_
  struct HashSteps {
    size_t operator()(const std::tuple<SpecId, SpecId, int>& key) const {
      const auto [from, to, type] = key;
      return (static_cast<size_t>(from) * 1000003 + static_cast<size_t>(to)) * 1000003 +
             static_cast<size_t>(type);
    }
  };
  std::unordered_map<std::tuple<SpecId, SpecId, int>, std::vector<analyze::Task>, HashSteps> steps_;
  analyze::Work groups_;  // holds what collectives are alike, for all choices
  analyze::CollectiveTasks collectives_;
};

}  // namespace cleave::plan
