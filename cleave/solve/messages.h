#pragma once

#include <vector>

#include "cleave/solve/model.h"

namespace cleave::solver {

// Sequential tree-reweighted message passing (TRW-S). Messages move cost from edges to nodes; what
// the nodes and edges then cost at least, each for itself, is a lower bound that never falls from
// sweep to sweep (but for rounding).
template <class Real>
class Messages {
 public:
  explicit Messages(const Model& model);

  // One sweep through the nodes in order and one back, for node costs laid out as Model::cost.
  // Returns the bound, rounding aside; `certify` is exact.
  double sweep(const Real* cost);
  // What every strategy costs above the best of its node, as seen in the last sweep.
  const Real* beliefs() const { return belief_.data(); }

  // Node by node, given the nodes before and the messages of those to come.
  void round(const Real* cost, bool forward, std::vector<int>& x) const;

  // A sweep that returns the bound, and what every solution that takes a strategy costs at least
  // (in `with`, laid out as Model::cost). Meant for doubles: exact but for their rounding.
  double certify(const Real* cost, AlignedVector<double>& with);

  // Takes over the messages of another precision.
  template <class Other>
  void copy_from(const Messages<Other>& other);

  const AlignedVector<Real>& raw() const { return message_; }
  // Messages to begin with, laid out as raw(): any will do, good ones save sweeps.
  void set(const std::vector<double>& messages) {
    std::copy(messages.begin(), messages.end(), message_.begin());
  }
  // Work of one sweep.
  double sweep_work() const { return sweep_work_; }

 private:
  template <bool kForward>
  double pass(const Real* cost);

  const Model& model_;
  std::vector<std::size_t> at_;  // of the message that comes in along an arc
  AlignedVector<Real> message_;
  AlignedVector<Real> belief_;
  std::vector<Real> share_;
  std::vector<double> least_, sent_, received_;  // constants of the last pass, per node
  AlignedVector<Real> gathered_, scaled_;
  double sweep_work_ = 0;
};

// Messages of one model (as Messages::raw) for another one of the same problem, from which
// strategies and nodes are gone. What was not there before is zero.
std::vector<double> carry_over(const Model& from, const std::vector<double>& messages,
                               const Model& to);

}  // namespace cleave::solver
