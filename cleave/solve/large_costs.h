#pragma once

#include <functional>

#include "cleave/solve/model.h"
#include "cleave/solve/solve.h"

namespace cleave::solver {

// Searches count in doubles, which tell whole numbers apart up to 2^53, and take kBig / 4 (see
// model.h) for what is forbidden: costs that may add up to this or more are shifted, and solutions
// that differ by little then look alike.
inline constexpr std::int64_t kMostTotal = std::int64_t{1} << 51;
static_assert(static_cast<double>(kMostTotal) < kBig / 4);

// The largest allowed cost of every node and every edge, added up: no choice costs more.
Int128 sum_of_largest(const Problem& problem);

using PlainSolve = std::function<Solution(const Problem&, const SolveOptions&)>;

// Solves a problem whose costs add up to kMostTotal or more, exactly if that is possible. What
// every choice pays is set aside. A first solve with shifted costs finds a solution, and what alone
// costs more than that solution is forbidden: mostly, the rest then needs no shift.
//
//   costs {10^18 - 1, 10^18 - 8} on forty nodes: 7 and 0, beside 40 * (10^18 - 8)
Solution solve_in_steps(const Problem& problem, const SolveOptions& options,
                        const PlainSolve& plainly);

}  // namespace cleave::solver
