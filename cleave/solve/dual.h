#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "cleave/solve/messages.h"
#include "cleave/solve/model.h"

namespace cleave::solver {

// The lower bound: a price on memory at every time turns the limit into node costs; messages bound
// the rest. Prices follow the usage that the messages' beliefs ask for, by steps in proportion to
// the gap that is left.
template <class Real>
class Dual {
 public:
  explicit Dual(const Model& model);

  // One sweep and one step of the prices. `target` is the cost of the best known solution, or a
  // guess.
  void iterate(double target);

  int iterations() const { return iterations_; }
  double bound() const { return best_; }  // rounding aside
  const std::vector<double>& prices() const { return prices_; }
  const std::vector<double>& best_prices() const { return best_prices_; }
  const Real* cost() const { return cost_.data(); }  // priced, of the last sweep
  const Messages<Real>& messages() const { return messages_; }
  // Whether the level has come down to the bound.
  bool converged() const { return model_.times == 0 ? stalled_ >= 2 : exhausted_; }
  // Starts from prices known from elsewhere, close to the best.
  void set_prices(const std::vector<double>& prices);
  void set_messages(const std::vector<double>& messages) { messages_.set(messages); }
  // For each strategy how much of its node the last steps gave it: an approximate solution of the
  // linear relaxation. Laid out as Model::cost.
  const AlignedVector<float>& shares() const { return share_; }
  // Shares are found if there are prices, which follow them, or if this asks for them.
  void keep_shares() { keeps_shares_ = true; }
  // Goes back to the best prices and sweeps there without moving them.
  void polish(int sweeps);

  // The bound in doubles for the present messages and the prices of the last sweep, less what
  // rounding can have added; with `with`, a bound on the solutions that take a strategy, for each.
  double certify(AlignedVector<double>* with = nullptr) const;
  double work() const { return work_; }

 private:
  void expected_usage(double temperature);
  void move_prices(double gap);
  double scale() const;  // of levels
  void end_window();
  double outside(const std::vector<double>& prices) const;
  double sweep();

  const Model& model_;
  Messages<Real> messages_;
  std::vector<double> prices_, swept_prices_, best_prices_, direction_, usage_, prefix_;
  AlignedVector<Real> cost_;
  AlignedVector<float> share_;
  double best_ = -1e300;
  double lift_ = -1;          // of the level above the best bound; negative: not set yet
  double first_lift_ = 0.05;  // as a fraction of the bound
  double room_ = 0;           // between the best bound and the best known solution
  double marked_ = -1e300;    // the best bound when the present window began
  int window_ = 0;
  int iterations_ = 0;
  int stalled_ = 0;        // windows without gain
  double cycle_ = -1e300;  // the best bound when the level was last raised
  bool exhausted_ = false;
  bool long_steps_ = true;
  bool keeps_shares_ = false;
  double work_ = 0;
};

}  // namespace cleave::solver
