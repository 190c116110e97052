#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cleave/kernels/array.h"

namespace cleave {

// The first element, in row-major order, in which two arrays of one type differ more than allowed.
struct Difference {
  Shape index;
  std::string actual, expected;
  uint64_t ulps = 0;  // if the search was by units in the last place
};

// Equal as numbers: 0.0 equals -0.0, and a NaN equals a NaN.
std::optional<Difference> first_unequal(const Array& actual, const Array& expected);
// Floats and complex numbers: |actual - expected| <= tolerance + relative * |expected|, by parts.
// Non-finite values must be equal.
std::optional<Difference> first_not_near(const Array& actual, const Array& expected,
                                         double tolerance, double relative = 0);
// Floats and complex numbers: the number of representable values between them is in [min, max].
std::optional<Difference> first_not_close(const Array& actual, const Array& expected,
                                          uint64_t min_ulps, uint64_t max_ulps);

}  // namespace cleave
