#pragma once

#include <cstdint>
#include <vector>

#include "cleave/solve/model.h"
#include "cleave/solve/random.h"

namespace cleave::solver {

// Maxima of an array under additions to ranges.
class RangeMax {
 public:
  void assign(const std::vector<std::int64_t>& values);
  void add(int begin, int end, std::int64_t amount);
  std::int64_t max(int begin, int end) const;
  std::int64_t max() const { return size_ ? node_[1] : INT64_MIN; }
  int argmax() const;  // the first

 private:
  void rebuild(int p);
  int size_ = 0;
  std::vector<std::int64_t> node_, lazy_;
};

// A complete assignment with, for each strategy of each node, what it would cost beside the present
// strategies of the neighbours, and with the usage over time. Moves can be undone.
class State {
 public:
  explicit State(const Model& model);

  void assign(const std::vector<int>& x);
  const std::vector<int>& x() const { return x_; }
  double cost() const { return cost_; }
  bool fits() const { return memory_.max() <= model_.limit || model_.times == 0; }
  std::int64_t peak() const { return memory_.max(); }
  // Cost of node i with its edges, for strategy s.
  double local(int i, int s) const { return local_[model_.offset[i] + s]; }

  void move(int i, int s);
  // Whether the usage stays within the limit when i takes s. Exact when it fits now.
  bool fits_with(int i, int s);

  // Begins a new log of moves.
  void mark() { log_.clear(); }
  void undo();
  struct Move {
    int node;
    int from;
  };
  const std::vector<Move>& log() const { return log_; }

  // Makes it fit by the moves that cost least for what they free. False when it cannot, or when the
  // cost passes `ceiling`.
  bool repair(double ceiling, Random& random);
  // Takes every single move that pays, starting from the moves in the log (or everywhere).
  void descend(bool everywhere, Random& random);
  // Recomputes the cost, free of rounding.
  void refresh();

  double work() const { return work_; }

 private:
  struct Candidate {
    double score;
    int node;
    int strategy;
    bool operator<(const Candidate& o) const {
      return score != o.score ? score > o.score
             : node != o.node ? node > o.node
                              : strategy > o.strategy;
    }
  };
  std::int64_t usage_at(int i, int s, int time) const;
  double score(int i, int s, int time, std::int64_t excess) const;
  bool worsens_elsewhere(int i, int s, int time) const;
  bool lower_peak(int time, double ceiling, Random& random);

  const Model& model_;
  std::vector<int> x_;
  AlignedVector<double> local_;
  RangeMax memory_;
  double cost_ = 0;
  std::vector<Move> log_;
  std::vector<std::vector<int>> alive_;  // nodes with memory in each bucket of times
  std::vector<char> queued_;
  std::vector<int> queue_;
  double work_ = 0;
};

}  // namespace cleave::solver
