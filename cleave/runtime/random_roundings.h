#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

struct RandomRoundings {
  uint64_t seed = 1;
  bool narrow_sums = false;  // parts of sums of 16-bit floats are rounded to 16 bits
  // Kernel calls after which the run is given up: a loop that runs until its numbers have settled
  // may never end when they are shaken.
  int64_t most_calls = INT64_MAX;
};

// Runs a function on one device as `run_function` does, but with random roundings (Monte Carlo
// arithmetic): what such runs differ by is what the order of sums can do to the results.
//
// The ops that sum (dot, convolution, reduce, scatter, fft, ...) are shaken, because sharding
// reorders sums; elementwise ops round the same everywhere. The error of a sum is relative to the
// sum of its terms' magnitudes, not to its result, so its operands are shaken: every element by up
// to 1 + log2(terms) roundings of its type, and the results again by as many. 16-bit floats are
// summed in 32 bits: there the magnitudes are summed and shake the result. Sums that are exact in
// every order stay as they are: those that give only numbers of their operands (a maximum, a sort,
// a one-hot dot), and small whole numbers.
//
// The same seed gives the same results, on every machine. Checks and prints are left out. Returns
// nothing if the run was given up or failed: roundings may lead to operands that an op refuses.
std::optional<std::vector<Array>> run_with_roundings(const Graph& graph, std::string_view entry,
                                                     std::span<const Array> args,
                                                     const RandomRoundings& roundings);

// How many kernels a run calls when nothing is shaken.
int64_t count_calls(const Graph& graph, std::string_view entry, std::span<const Array> args);

// Half the distance from 1 to the next float; of complex numbers, of their parts. 0 for others.
double unit_rounding(DType dtype);

}  // namespace cleave
