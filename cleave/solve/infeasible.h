#pragma once

#include <string>

#include "cleave/solve/problem.h"

namespace cleave::solver {

// Why a problem has no solution, if one node, one edge or one time alone shows it; else empty.
//
//   "node 3: each of its 2 strategies is forbidden"
//   "at time 2 the smallest usages of the 2 live nodes add up to 55; the limit is 54"
std::string why_infeasible(const Problem& problem);

}  // namespace cleave::solver
