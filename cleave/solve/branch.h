#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cleave/solve/budget.h"
#include "cleave/solve/reduction.h"

namespace cleave::solver {

struct BranchOptions {
  std::uint64_t seed = 0;
  int threads = 2;
  int workers = 2;
  // Called between batches with the bound over everything that is open and the best cost.
  std::function<void(double bound, double cost)> observe;
};

struct BranchOutcome {
  bool complete = false;    // nothing is open: what was found, if anything, is best
  double bound = 0;         // no solution below `upper` costs less
  std::vector<int> picked;  // a strategy per node of the reduction; empty: none below `upper`
  double cost = 0;
  std::uint64_t nodes = 0;
};

// Branch and bound over reductions: each node of the tree is a whole problem that is reduced again,
// bounded by prices and messages, thinned by reduced costs (strategies that cannot be part of a
// solution below `upper` go) and, if anything is left, split on the strategies of one node. Looks
// for solutions that cost less than `upper`. Nodes are taken in batches of fixed size, so that the
// tree does not depend on the number of threads. `order` sorts the nodes, as for build_model.
BranchOutcome branch_and_bound(const Reduction& root, const std::vector<std::int64_t>& order,
                               const std::vector<double>& prices, double upper,
                               const BranchOptions& options, Budget& budget);

}  // namespace cleave::solver
