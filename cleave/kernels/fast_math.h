#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Functions of one double, for operands that were floats: without branches, so that compilers
// vectorise loops of them, and right to about 1e-12, so that rounding to float gives the nearest
// value but in rare cases. Outside the range of float results they saturate.
namespace cleave::fast {

inline constexpr double kRoundToInteger = 0x1.8p52;  // adding it leaves the integer in the low bits
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// x = n ln2 + r; q = e^r - 1; scale = 2^n.
struct ExpParts {
  double q;
  double scale;
};
inline ExpParts exp_parts(double x) {
  x = x < -110 ? -110 : x;
  x = x > 90 ? 90 : x;
  const double shifted = x * (1 / kLn2) + kRoundToInteger;
  const double n = shifted - kRoundToInteger;
  const double r = x - n * kLn2;
  double q = 1.0 / 362880;
  q = q * r + 1.0 / 40320;
  q = q * r + 1.0 / 5040;
  q = q * r + 1.0 / 720;
  q = q * r + 1.0 / 120;
  q = q * r + 1.0 / 24;
  q = q * r + 1.0 / 6;
  q = q * r + 0.5;
  q = (q * r) * r + r;
  const uint64_t exponent = std::bit_cast<uint64_t>(shifted) << 52;
  return {q, std::bit_cast<double>(exponent + 0x3ff0000000000000)};
}

inline double exp(double x) {
  const ExpParts parts = exp_parts(x);
  const double result = parts.scale * parts.q + parts.scale;
  return x != x ? x : result;
}

inline double expm1(double x) {
  const ExpParts parts = exp_parts(x);
  const double result = parts.scale * parts.q + (parts.scale - 1);
  return (x != x || x == 0) ? x : result;
}

inline double logistic(double x) { return 1 / (1 + exp(-x)); }

inline double tanh(double x) {
  const double twice = x > 20 ? 40 : (x < -20 ? -40 : 2 * x);
  const double e = expm1(twice);
  return e / (e + 2);
}

// Of positive finite doubles that are normal; every positive float is.
inline double log_positive(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  // k: the exponent such that m = x / 2^k lies in [sqrt(1/2), sqrt(2)).
  const uint64_t biased = (bits - 0x3fe6a09e667f3bcd + (uint64_t{1024} << 52)) >> 52;
  const uint64_t k_bits = biased - 1024;
  const double m = std::bit_cast<double>(bits - (k_bits << 52));
  const double k =
      std::bit_cast<double>(std::bit_cast<uint64_t>(kRoundToInteger) + k_bits) - kRoundToInteger;
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double p = 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return k * kLn2 + (2 * s + 2 * s * z * p);
}

inline double log(double x) {
  const double result = log_positive(x);
  const double special = x == 0 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
  return x > 0 ? (x < kInfinity ? result : x) : special;
}

inline double log1p(double x) {
  const double u = 1 + x;
  const double result = log_positive(u) + (x - (u - 1)) / u;
  const double special = u == 0 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
  const double nonzero = u > 0 ? (x < kInfinity ? result : x) : special;
  return x == 0 ? x : nonzero;
}

// For |x| up to kMaxAngle.
inline constexpr double kMaxAngle = 1e6;
inline double sin_or_cos(double x, uint64_t quarter_turns) {
  constexpr double kPiOver2High = 0x1.921fb544p0, kPiOver2Low = 0x1.0b4611a626331p-34;
  const double shifted = x * 0x1.45f306dc9c883p-1 + kRoundToInteger;
  const double n = shifted - kRoundToInteger;
  const double r = (x - n * kPiOver2High) - n * kPiOver2Low;
  const uint64_t quadrant = std::bit_cast<uint64_t>(shifted) + quarter_turns;
  const double z = r * r;
  double s = -1.0 / 1307674368000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = (s * z) * r + r;
  double c = 1.0 / 20922789888000;
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 0.5;
  c = c * z + 1;
  const double value = quadrant & 1 ? c : s;
  return quadrant & 2 ? -value : value;
}
inline double sin(double x) { return x == 0 ? x : sin_or_cos(x, 0); }
inline double cos(double x) { return sin_or_cos(x, 1); }

}  // namespace cleave::fast
