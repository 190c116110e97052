#pragma once

#include <memory>
#include <vector>

#include "cleave/solve/elimination.h"
#include "cleave/solve/model.h"
#include "cleave/solve/random.h"
#include "cleave/solve/state.h"

namespace cleave::solver {

// A solution of the model; empty x: none.
struct Incumbent {
  std::vector<int> x;
  double cost = kBig;
  bool found() const { return !x.empty(); }
  // Takes the better of the two.
  void offer(const std::vector<int>& other, double other_cost) {
    if (other_cost < cost - 0.5) {
      x = other;
      cost = other_cost;
    }
  }
};

// Large neighbourhoods: a region of the graph is solved by elimination under memory prices that are
// scaled at random, the whole is made to fit again, single moves polish it, and the result is taken
// when it is not worse than a threshold that falls to nothing.
template <class Real>
class Search {
 public:
  Search(const Model& model, std::uint64_t seed);

  // A solution from a proposal that ignores memory: elimination of everything, repair, polish.
  bool complete(const Real* cost, std::vector<int>& x, double width);

  // Moves on from `x`.
  void start(const std::vector<int>& x);
  // Moves on from what is left of `x` when a large region of it is solved with much noise. False:
  // that could not be made to fit, and nothing has begun.
  bool start_beside(const std::vector<int>& x, const std::vector<double>& prices);
  bool started() const { return started_; }
  double cost() const { return state_.cost(); }
  void step(const std::vector<double>& prices, double threshold);
  // Takes over those connected parts of another solution that pay, if that gives a new best.
  void fuse(const std::vector<int>& other);
  // By strategy, what the dual says that it costs above the best of its node; must outlive us.
  void rank(const std::vector<float>& above) { above_ = &above; }
  const std::vector<int>& x() const { return state_.x(); }

  const Incumbent& best() const { return best_; }
  Random& random() { return random_; }
  // Scaled so that a unit takes about as long as one of a message sweep.
  double work() const { return 3.5 * (state_.work() + elimination_.work() + work_); }

 private:
  // Regions come in kinds: shapes by sizes by strategies per node.
  struct Kind {
    int shape = 0;  // 0 everything, 1 a stretch of the order, 2 grown from a node, 3 from two
    int size = 0;
    int domain = 0;     // strategies per node; 0: all
    double work = 1e5;  // of one step, a running mean
    double gain = 0;    // fading
  };

  void add_kinds();
  int pick_kind();
  void pick_region(const Kind& kind);
  void grow_from(int seed, int size);
  void price_region(const std::vector<double>& prices);
  // Leaves each node of the region the present strategy and some that look best.
  void confine(int most);
  std::vector<std::vector<int>> differences(const std::vector<int>& other);
  void propose_and_repair(double width, double threshold, bool confined);

  const Model& model_;
  Random random_;
  State state_;
  Elimination<Real> elimination_;
  Incumbent best_;
  std::vector<int> region_, proposal_;
  std::vector<char> in_region_;
  std::vector<double> prefix_;
  AlignedVector<Real> cost_;
  std::vector<Kind> kinds_;
  const std::vector<float>* above_ = nullptr;
  Domains domains_;
  double gained_ = 0;
  bool started_ = false;
  double work_ = 0;
};

}  // namespace cleave::solver
