#pragma once

#include <vector>

#include "cleave/solve/problem.h"

namespace cleave::solver {

// What every strategy costs above the best of its node if all others are chosen well: by node and
// strategy, as messages see it after so many sweeps. Neither a bound nor exact, but quick, and good
// enough to tell strategies that are worth a look from those that are not:
//
//   for (float above : rank_strategies(problem, 10)[node]) ...
//
// If there is a limit, memory has the price that some steps of the dual find for it.
std::vector<std::vector<float>> rank_strategies(const Problem& problem, int sweeps);

}  // namespace cleave::solver
