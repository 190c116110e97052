#pragma once

#include <string>

#include "cleave/kernels/array.h"

namespace cleave {

// How far two arrays of one type are apart.
struct Comparison {
  double max_difference = 0;  // absolute; of complex numbers, by parts
  double scale = 0;           // the largest finite magnitude of the expected array
  double tolerance = 0;       // how far numbers may be apart; 0: not at all
  bool same = true;           // equal for integers; within the tolerance of the dtype for floats
  std::string first;          // if they are not the same: the first element that differs
};

// Floats are the same within `units` roundings of the largest magnitude (sums in another order
// round differently); NaNs equal NaNs, infinities themselves.
Comparison compare(const Array& actual, const Array& expected, double units = 1000);

}  // namespace cleave
