#include "cleave/runtime/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cleave/kernels/difference.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/narrow.h"
#include "cleave/runtime/random_roundings.h"

namespace cleave {
Comparison compare(const Array& actual, const Array& expected, double units) {
  Comparison result;
  const DType dtype = expected.dtype();
  auto describe = [](const Difference& difference) {
    return fmt::format("[{}]: {} and {} expected", to_string(difference.index), difference.actual,
                       difference.expected);
  };
  if (actual.dtype() != dtype || actual.shape() != expected.shape()) {
    result.same = false;
    result.first = "another type";
    return result;
  }
  const DType wide = is_complex(dtype) ? DType::C128 : DType::F64;
  const Array a = convert(actual, wide).contiguous(), e = convert(expected, wide).contiguous();
  const int64_t numbers = a.num_elements() * (is_complex(dtype) ? 2 : 1);
  for (int64_t i = 0; i < numbers; ++i) {
    const double x = a.data<double>()[i], y = e.data<double>()[i];
    if (std::isfinite(y)) result.scale = std::max(result.scale, std::abs(y));
    if (std::isfinite(x) && std::isfinite(y))
      result.max_difference = std::max(result.max_difference, std::abs(x - y));
  }
  // A reduced 16-bit result differs by few roundings: it is accumulated in wider numbers.
  const double rounding = is_narrow(dtype) ? 0 : unit_rounding(dtype);
  const double many = rounding > 1e-4 ? std::min(units, 16.0) : units;
  result.tolerance = many * rounding * std::max(result.scale, 1e-30);
  const auto difference = rounding == 0 ? first_unequal(actual, expected)
                                        : first_not_near(actual, expected, result.tolerance);
  result.same = !difference;
  if (difference) result.first = describe(*difference);
  return result;
}

}  // namespace cleave
