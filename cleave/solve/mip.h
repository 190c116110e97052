#pragma once

#include <cstdint>

#include "cleave/solve/problem.h"
#include "cleave/solve/solve.h"

namespace cleave::solver {

struct MipOptions {
  double time_limit = 60;
  // Memory rows are added when a solution breaks them; with false all of them are there at once.
  bool lazy_rows = true;
  std::stop_token stop = {};
};

// The integer program that Alpa solves, with memory rows, through the CBC library: a binary for
// each strategy of each node, one of them set per node; a share for each allowed pair of strategies
// on an edge, whose sums are those binaries; the live usages at every time within the limit.
//
// Nothing is reduced and nothing is shared with solve(), so the two can check each other. Meant for
// small problems: up to some thousands of table entries. Exact up to the library's tolerance (a
// relative 1e-9), so costs should stay below a million million.
//
// The library looks at the clock only now and then. It runs in a child process, which is ended
// shortly after the time limit; what it has found by the limit comes back, if it stops by itself.
Solution solve_mip(const Problem& problem, const MipOptions& options = {});

}  // namespace cleave::solver
