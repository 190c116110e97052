#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

struct CompareRunsOptions {
  std::function<double(DType)> units = {};  // see `compare`; empty: its default
  bool narrow_sums = false;                 // 16-bit sums were made of parts of 16 bits
  int most_runs = 40;                       // with random roundings
  double reach = 8;                         // how many times farther than they a result may be off
};

// The results of a sharded run beside those of one device.
struct RunComparison {
  double max_difference = 0;  // of numbers that are the same, and of those that are not
  double scale = 0;           // the largest finite magnitude expected
  int64_t numbers = 0;        // of all results; a complex number is two
  int64_t unsteady = 0;       // beyond the tolerance, but no farther than roundings move them
  int64_t different = 0;      // farther
  int rounding_runs = 0;
  std::vector<std::string> differences;  // "result 3 differs by 0.1: ...", one per result

  bool same() const { return different == 0 && differences.empty(); }
};

// Numbers within the tolerance of `compare` are the same. If others are not, the order of sums may
// be the reason: the mean of numbers that cancel, an update m / (sqrt(v) + eps) of a gradient near
// zero, an argmax of equals. So the whole function (`whole`, which gave `expected` for
// `args`) is run again a few times with random roundings (random_roundings.h), until every such
// number has been moved by at least 1/`reach` of its deviation. What was not moved so far is
// different, and so is every number that roundings do not move at all. This holds for integers and
// booleans too: an index that is off is excused only if roundings change it.
RunComparison compare_runs(const Graph& whole, std::string_view entry, std::span<const Array> args,
                           std::span<const Array> expected, std::span<const Array> actual,
                           const CompareRunsOptions& options = {});

// "412 of 1000000 numbers differ by more than the tolerance; ...", empty if none does.
std::string unsteady_text(const RunComparison& comparison);

}  // namespace cleave
