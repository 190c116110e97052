#include "cleave/solve/rank.h"

#include <limits>

#include "cleave/solve/dual.h"
#include "cleave/solve/model.h"
#include "cleave/solve/reduction.h"

namespace cleave::solver {

std::vector<std::vector<float>> rank_strategies(const Problem& problem, int sweeps) {
  constexpr int kStepsOfPrices = 60;
  const Reduction whole(problem);
  const Model model = build_model(whole, program_order(problem), {}, Precision::Single);
  Dual<float> dual(model);
  const int steps = model.times > 0 ? sweeps + kStepsOfPrices : sweeps;
  for (int step = 0; step < steps; ++step) dual.iterate(2 * dual.bound() + 1);
  std::vector<std::vector<float>> ranks;
  for (const ProblemNode& node : problem.nodes)
    ranks.emplace_back(node.costs.size(), std::numeric_limits<float>::infinity());
  const float* beliefs = dual.messages().beliefs();
  for (int i = 0; i < model.n; ++i)
    for (int s = 0; s < model.k[i]; ++s) {
      const std::size_t at = model.offset[i] + s;
      ranks[model.root[i]][model.strategy[at]] = beliefs[at];
    }
  return ranks;
}

}  // namespace cleave::solver
