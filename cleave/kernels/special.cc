#include "cleave/kernels/special.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace cleave {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// B(2j) for j = 1, 2, ...
constexpr double kBernoulli[] = {
    1.0 / 6, -1.0 / 30,     1.0 / 42,      -1.0 / 30,       5.0 / 66,       -691.0 / 2730,
    7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};

}  // namespace

double lgamma_value(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

double digamma(double x) {
  if (std::isnan(x) || x == -kInfinity) return kNaN;
  if (x == kInfinity) return x;
  if (x <= 0) {
    if (x == std::floor(x)) return kNaN;
    // The fraction first: pi x loses digits for large x.
    const double fraction = x - std::floor(x);
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * fraction);
  }
  double shift = 0;
  while (x < 12) shift -= 1 / x++;
  const double inverse = 1 / (x * x);
  double series = 0, power = inverse;
  for (int j = 0; j < 9; ++j, power *= inverse) series -= kBernoulli[j] / (2 * (j + 1)) * power;
  return shift + std::log(x) - 0.5 / x + series;
}

double zeta(double s, double q) {
  if (std::isnan(s) || std::isnan(q)) return kNaN;
  if (s == 1) return kInfinity;
  if (s < 1) return kNaN;
  if (q <= 0) {
    if (q == std::floor(q)) return std::fmod(s, 2) == 0 ? kInfinity : kNaN;
    if (s != std::floor(s)) return kNaN;
  }
  if (q == kInfinity) return 0;
  // Euler and Maclaurin: the first terms, the integral of the rest, and Bernoulli corrections.
  double sum = 0;
  double a = q;
  for (int k = 0; k < 12 || a < 12; ++k, a += 1) {
    const double term = std::pow(a, -s);
    sum += term;
    if (std::abs(term) <= std::abs(sum) * 1e-18 && a > 1) return sum;
  }
  const double base = std::pow(a, -s);
  sum += base * a / (s - 1) + 0.5 * base;
  double rising = s, factorial = 2, power = base / a;
  for (int j = 0; j < 12; ++j) {
    const double term = kBernoulli[j] * rising / factorial * power;
    sum += term;
    if (std::abs(term) <= std::abs(sum) * 1e-18) break;
    const double m = 2 * j + 1;
    rising *= (s + m) * (s + m + 1);
    factorial *= (m + 2) * (m + 3);
    power /= a * a;
  }
  return sum;
}

double polygamma(double n, double x) {
  if (std::isnan(n) || std::isnan(x) || n < 0 || n != std::floor(n)) return kNaN;
  if (n == 0) return digamma(x);
  const double magnitude = std::exp(lgamma_value(n + 1)) * zeta(n + 1, x);
  return std::fmod(n, 2) == 0 ? -magnitude : magnitude;
}

double erf_inv(double x) {
  if (!(std::abs(x) <= 1)) return kNaN;
  if (std::abs(x) == 1) return std::copysign(kInfinity, x);
  if (x == 0) return x;
  // A guess to three digits by the logarithm of the tail, then Halley's method. The tail's own
  // function keeps digits where x is close to 1.
  const double tail = std::log1p(-x * x);
  const double half = 2 / (std::numbers::pi * 0.147) + tail / 2;
  double y = std::copysign(std::sqrt(std::sqrt(half * half - tail / 0.147) - half), x);
  for (int step = 0; step < 3; ++step) {
    const double error = std::abs(x) < 0.5 ? std::erf(y) - x
                         : x > 0           ? (1 - x) - std::erfc(y)
                                           : std::erfc(-y) - (1 + x);
    const double newton = error / (2 / std::sqrt(std::numbers::pi) * std::exp(-y * y));
    y -= newton / (1 + y * newton);
  }
  return y;
}

double bessel_i1e(double x) {
  const double a = std::abs(x);
  if (std::isnan(x)) return x;
  if (a == kInfinity) return std::copysign(0.0, x);
  double value = 0;
  if (a < 32) {
    const double quarter = a * a / 4;
    double term = a / 2;
    for (int k = 1; value + term != value; ++k) {
      value += term;
      term *= quarter / (k * (k + 1.0));
    }
    value *= std::exp(-a);
  } else {
    double term = 1;
    for (int k = 1; k < 40 && value + term != value; ++k) {
      value += term;
      const double odd = 2 * k - 1;
      term *= -(4 - odd * odd) / (8 * a * k);
    }
    value /= std::sqrt(2 * std::numbers::pi * a);
  }
  return std::copysign(value, x);
}

}  // namespace cleave
