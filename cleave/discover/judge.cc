// What a difference between the devices' numbers and the true ones means.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/discover/engine.h"

namespace cleave {
namespace {

bool all_finite(const std::vector<std::vector<Array>>& devices) {
  for (const auto& operand : devices)
    for (const Array& device : operand)
      for (double x : to_doubles(device))
        if (!std::isfinite(x)) return false;
  return true;
}

// Numbers below the normal ones of their dtype: kernels treat them by the length of what they are
// given, as vectors or one by one (fmod by one gives NaN or not).
bool any_denormal(const std::vector<std::vector<Array>>& devices) {
  for (const auto& operand : devices)
    for (const Array& device : operand) {
      const double least = device.dtype() == DType::F64   ? std::numeric_limits<double>::min()
                           : device.dtype() == DType::F16 ? 6.1e-5
                                                          : std::numeric_limits<float>::min();
      if (!has_fractions(device.dtype())) continue;
      for (double x : to_doubles(device))
        if (x != 0 && std::fabs(x) < least) return true;
    }
  return false;
}

// The step between numbers near zero: there, rounding is not relative to the number.
double smallest_step(DType dtype) {
  return dtype == DType::F64    ? std::numeric_limits<double>::denorm_min()
         : dtype == DType::F16  ? 6.0e-8
         : dtype == DType::BF16 ? 9.2e-41
                                : std::numeric_limits<float>::denorm_min();
}

}  // namespace

Tolerance tolerance_for(const std::vector<std::vector<Array>>& devices, const Array& result,
                        bool partial_operand) {
  Tolerance tolerance{tolerance_of(result.dtype()), 0};
  if (tolerance.relative == 0 || devices.empty()) return tolerance;
  std::vector<double> largest(devices.front().size(), 0.0);
  for (const auto& operand : devices) {
    tolerance.relative = std::max(tolerance.relative, tolerance_of(operand.front().dtype()));
    for (size_t i = 0; i < operand.size(); ++i)
      largest[i] = std::max(largest[i], magnitude(operand[i]));
  }
  constexpr double kSteps = 1024;  // of as many roundings
  const double least = kSteps * smallest_step(result.dtype());
  for (double& x : largest) x = std::max(x * tolerance.relative, least);
  tolerance.slack = *std::max_element(largest.begin(), largest.end());
  if (!partial_operand) tolerance.slack_of_device = std::move(largest);
  return tolerance;
}

MatchResult judge(MatchResult match, const std::vector<std::vector<Array>>& devices,
                  const std::vector<Array>& outputs, bool partial_operand, bool partial_result) {
  if (match.match != Match::NonFinite) return match;
  const bool finite_in = all_finite(devices);
  const bool expected_finite = std::isfinite(match.expected);
  const bool one_is_finite = expected_finite != std::isfinite(match.actual);
  if (!partial_operand && !finite_in) {
    // Infinities of both signs meet in a reduction over devices, in whatever order.
    if (!partial_result || one_is_finite) match.match = Match::No;
    return match;
  }
  if (!finite_in) return match;
  if (!partial_operand && !partial_result) {
    const bool nan = std::isnan(match.expected) || std::isnan(match.actual);
    if (one_is_finite && nan && !any_denormal(devices)) match.match = Match::No;
    return match;
  }
  if (!expected_finite) return match;
  for (const Array& output : outputs)
    for (double x : to_doubles(output))
      if (std::isnan(x)) match.match = Match::No;
  return match;
}

}  // namespace cleave
