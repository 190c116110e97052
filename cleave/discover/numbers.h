#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

// Numbers of an array as doubles, row-major, and back (rounded to the dtype; bool: non-zero is
// true). Exact for every integer that discovery makes. A complex number is two doubles.
std::vector<double> to_doubles(const Array& array);
Array from_doubles(DType dtype, const Shape& shape, std::span<const double> values);

// Whether elements are rounded: floats and complex numbers.
inline bool has_fractions(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// A counter-based stream: the same seed gives the same numbers on every machine.
class NumberStream {
 public:
  explicit NumberStream(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)
  double normal();
  bool chance(double p) { return uniform() < p; }

 private:
  uint64_t state_;
};

}  // namespace cleave
