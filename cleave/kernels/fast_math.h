#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Functions of floats without branches, so that compilers vectorise loops of them. exp and log are
// right to one unit in the last place, logistic and tanh to two; expm1, log1p, sin, cos and erf are
// computed in double, and right to the last bit but in rare cases.
namespace cleave::fast {

// ---- in float ----

inline constexpr float kRoundFloat = 0x1.8p23f;  // adding it leaves the integer in the low bits
inline constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
inline constexpr float kInfinityFloat = std::numeric_limits<float>::infinity();

// x = n ln2 + r. e^x = 2^n (1 + q), with 2^n in two parts that are both normal.
struct ExpParts {
  float q;
  float scale_a, scale_b;
};
inline ExpParts exp_parts(float x) {
  const float shifted = x * 0x1.715476p0f + kRoundFloat;
  const float n = shifted - kRoundFloat;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  const float q = (p * r) * r + r;
  const int32_t power =
      static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRoundFloat));
  const int32_t half = power >> 1;
  return {q, std::bit_cast<float>((half + 127) << 23),
          std::bit_cast<float>((power - half + 127) << 23)};
}

inline float clamp_exponent(float x) {
  const float low = x < -105.0f ? -105.0f : x;
  return low > 90.0f ? 90.0f : low;
}

inline float exp(float x) {
  const ExpParts parts = exp_parts(clamp_exponent(x));
  const float result = (parts.q * parts.scale_a + parts.scale_a) * parts.scale_b;
  return x != x ? x : result;
}

inline float logistic(float x) { return 1.0f / (1.0f + exp(-x)); }

// With e = e^2|x| - 1: e / (e + 2).
inline float tanh(float x) {
  const float magnitude = std::abs(x);
  const float twice = magnitude > 10.0f ? 20.0f : 2.0f * magnitude;
  const ExpParts parts = exp_parts(twice);
  const float scale = parts.scale_a * parts.scale_b;
  const float e = parts.q * scale + (scale - 1.0f);
  const float result = std::copysign(e / (e + 2.0f), x);
  return x != x ? x : result;
}

// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); s = f / (2 + f), and
// log(1 + f) = f - (f^2/2 - s (f^2/2 + R)), R = 2 (s^2/3 + s^4/5 + ...).
inline float log(float x) {
  const bool tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p25f : x;
  const uint32_t bits = std::bit_cast<uint32_t>(scaled) - 0x3f3504f3u;
  const int32_t power = static_cast<int32_t>(bits) >> 23;
  const float f = std::bit_cast<float>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float k = static_cast<float>(power - (tiny ? 25 : 0));
  const float s = f / (2.0f + f);
  const float z = s * s;
  float p = 2.0f / 9;
  p = p * z + 2.0f / 7;
  p = p * z + 2.0f / 5;
  p = p * z + 2.0f / 3;
  const float half = 0.5f * f * f;
  const float result = k * kLn2High - ((half - (s * (half + z * p) + k * kLn2Low)) - f);
  const float finite = x < kInfinityFloat ? result : x;
  const float special = x == 0.0f ? -kInfinityFloat : std::numeric_limits<float>::quiet_NaN();
  return x > 0.0f ? finite : special;
}

// ---- in double ----

inline constexpr double kRoundDouble = 0x1.8p52;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline double expm1(double x) {
  const double low = x < -40 ? -40 : x;
  const double clamped = low > 90 ? 90 : low;
  const double shifted = clamped * (1 / kLn2) + kRoundDouble;
  const double n = shifted - kRoundDouble;
  const double r = clamped - n * kLn2;
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
  const double scale = std::bit_cast<double>(exponent + 0x3ff0000000000000);
  const double result = scale * q + (scale - 1);
  const double nonzero = x != x ? x : result;
  return x == 0 ? x : nonzero;
}

// Of positive finite doubles that are normal; every positive float is.
inline double log_positive(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  // k: the exponent such that m = x / 2^k lies in [sqrt(1/2), sqrt(2)).
  const uint64_t biased = (bits - 0x3fe6a09e667f3bcd + (uint64_t{1024} << 52)) >> 52;
  const uint64_t k_bits = biased - 1024;
  const double m = std::bit_cast<double>(bits - (k_bits << 52));
  const double k =
      std::bit_cast<double>(std::bit_cast<uint64_t>(kRoundDouble) + k_bits) - kRoundDouble;
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

inline double log1p(double x) {
  const double u = 1 + x;
  const double result = log_positive(u) + (x - (u - 1)) / u;
  const double special = u == 0 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
  const double finite = x < kInfinity ? result : x;
  const double nonzero = u > 0 ? finite : special;
  return x == 0 ? x : nonzero;
}

// For |x| up to kMaxAngle.
inline constexpr double kMaxAngle = 1e6;
inline double sin_or_cos(double x, uint64_t quarter_turns) {
  constexpr double kPiOver2High = 0x1.921fb544p0, kPiOver2Low = 0x1.0b4611a626331p-34;
  const double shifted = x * 0x1.45f306dc9c883p-1 + kRoundDouble;
  const double n = shifted - kRoundDouble;
  const double r = (x - n * kPiOver2High) - n * kPiOver2Low;
  const uint64_t quadrant = std::bit_cast<uint64_t>(shifted) + quarter_turns;
  const double z = r * r;
  double s = -1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = (s * z) * r + r;
  double c = 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 0.5;
  c = c * z + 1;
  const double value = quadrant & 1 ? c : s;
  const uint64_t sign = (quadrant & 2) << 62;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ sign);
}
inline double sin(double x) {
  const double result = sin_or_cos(x, 0);
  return x == 0 ? x : result;
}
inline double cos(double x) { return sin_or_cos(x, 1); }

// erf(x) / x as a polynomial in u = x^2/8 - 1, fitted at Chebyshev's points; 1 beyond 4, where a
// float can't tell.
inline double erf(double x) {
  constexpr double kCoefficients[] = {
      0x1.6a04078138870p-2,  -0x1.69a0ccd72c797p-3,  0x1.0dabafadf15f2p-3,  -0x1.b92e978107688p-4,
      0x1.717ed180de8fap-4,  -0x1.3215b3394b71cp-4,  0x1.ea9c336338980p-5,  -0x1.76eb44e6a7fa0p-5,
      0x1.0eb9cf8a7ced8p-5,  -0x1.701600cc89334p-6,  0x1.d7c78e1e48bc9p-7,  -0x1.1aca00c079ee8p-7,
      0x1.37169586c2e81p-8,  -0x1.4ba8ae90fc2d0p-9,  0x1.78f7c3915ee58p-10, -0x1.60e41f75d94d4p-11,
      0x1.4c10bc19c43f4p-13, -0x1.2f51ba1c7705ap-14, 0x1.9852e83c553afp-14, -0x1.33fae20bf83f1p-15};
  const double low = x < -4 ? -4 : x;
  const double inside = low > 4 ? 4 : low;
  const double u = inside * inside * 0.125 - 1;
  double p = kCoefficients[19];
  for (int i = 18; i >= 0; --i) p = p * u + kCoefficients[i];
  const double result = inside * p;
  return std::abs(x) > 4 ? std::copysign(1.0, x) : result;
}

}  // namespace cleave::fast
