#pragma once

#include "cleave/kernels/fast_math.h"

// The functions that models use less often, also without branches: right to two and a half units in
// the last place, asinh, acosh, atanh and sinh to three, erfc to four, powers to two.
namespace cleave::fast {

inline constexpr float kPi = 0x1.921fb6p1f, kPiLow = -0x1.777a5cp-24f;
inline constexpr float kHalfPi = 0x1.921fb6p0f, kHalfPiLow = -0x1.777a5cp-25f;
inline constexpr float kLn2Float = 0x1.62e430p-1f;

// a * b - c, rounded once: with c = a * b, what that lost when it was rounded.
inline float product_minus(float a, float b, float c) {
  if constexpr (kHasFma)
    return std::fma(a, b, -c);
  else
    return static_cast<float>(static_cast<double>(a) * b - c);
}

// ---- inverse trigonometric functions ----

// For t in [0, 1].
inline float atan_polynomial(float t) {
  const float z = t * t;
  float p = -0x1.d62e0cp-10f;
  p = p * z + 0x1.65a54ep-7f;
  p = p * z - 0x1.fed062p-6f;
  p = p * z + 0x1.dac964p-5f;
  p = p * z - 0x1.58346cp-4f;
  p = p * z + 0x1.c099f2p-4f;
  p = p * z - 0x1.2421b4p-3f;
  p = p * z + 0x1.9991fep-3f;
  p = p * z - 0x1.55553ep-2f;
  return (p * z) * t + t;
}
inline float atan(float x) {
  const float a = std::abs(x);
  const bool steep = a > 1.0f;
  const float near = atan_polynomial(steep ? 1.0f / a : a);
  return std::copysign(steep ? kHalfPi - (near - kHalfPiLow) : near, x);
}
inline float atan2(float y, float x) {
  const float a = std::abs(x), b = std::abs(y);
  const bool steep = b > a;
  const float low = steep ? a : b, high = steep ? b : a;
  const float quotient = low / high;
  const float equal = high == 0.0f ? 0.0f : 1.0f;  // 0 / 0 and inf / inf, but for NaN
  const float t = low == high ? equal : quotient;
  const float near = atan_polynomial(t);
  const float first = steep ? kHalfPi - (near - kHalfPiLow) : near;
  const float result = std::signbit(x) ? kPi - (first - kPiLow) : first;
  return x != x || y != y ? x + y : std::copysign(result, y);
}

// asin(s) for s^2 = z up to 1/4.
inline float asin_polynomial(float s, float z) {
  float p = 0x1.59dab6p-5f;
  p = p * z + 0x1.8ba26cp-6f;
  p = p * z + 0x1.748c62p-5f;
  p = p * z + 0x1.33014ep-4f;
  p = p * z + 0x1.5555cap-3f;
  return (p * z) * s + s;
}
// Above one half, by the angle's half: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)).
inline float asin(float x) {
  const float a = std::abs(x);
  const bool near_one = a > 0.5f;
  const float z = near_one ? 0.5f - 0.5f * a : a * a;
  const float near = asin_polynomial(near_one ? std::sqrt(z) : a, z);
  return std::copysign(near_one ? kHalfPi - (2.0f * near - kHalfPiLow) : near, x);
}
inline float acos(float x) {
  const float a = std::abs(x);
  const bool near_one = a > 0.5f;
  const float z = near_one ? 0.5f - 0.5f * a : a * a;
  const float near = asin_polynomial(near_one ? std::sqrt(z) : x, z);
  const float twice = 2.0f * near;
  const float outer = x < 0.0f ? kPi - (twice - kPiLow) : twice;
  return near_one ? outer : kHalfPi - (near - kHalfPiLow);
}

// ---- hyperbolic functions ----

inline float cosh(float x) {
  const float a = std::abs(x);
  const ExpParts parts = exp_parts(a > 90.0f ? 90.0f : a);
  const float half = (parts.q * parts.scale_a + parts.scale_a) * (0.5f * parts.scale_b);
  return half + 0.25f / half;
}
// Below 1 by e = e^a - 1, as (e + e / (e + 1)) / 2.
inline float sinh(float x) {
  const float a = std::abs(x);
  const bool small = a < 1.0f;
  const ExpParts parts = exp_parts(a > 90.0f ? 90.0f : a);
  const float half = (parts.q * parts.scale_a + parts.scale_a) * (0.5f * parts.scale_b);
  const float scale = parts.scale_a * parts.scale_b;
  const float e = parts.q * scale + (scale - 1.0f);
  const float quotient = (small ? 0.5f * e : -0.25f) / (small ? e + 1.0f : half);
  return std::copysign((small ? 0.5f * e : half) + quotient, x);
}
// Large ones are log(2 a), with a = 1 + t.
inline constexpr float kLargeInverse = 1e4f;
inline float asinh(float x) {
  const float a = std::abs(x);
  const bool large = a > kLargeInverse;
  const float square = large ? 0.0f : a * a;
  const float t = large ? a - 1.0f : a + square / (1.0f + std::sqrt(1.0f + square));
  return std::copysign(log1p(t) + (large ? kLn2Float : 0.0f), x);
}
inline float acosh(float x) {
  const bool large = x > kLargeInverse;
  const float t = x - 1.0f;
  const float square = large ? 0.0f : t * (t + 2.0f);
  const float result = log1p(t + std::sqrt(square)) + (large ? kLn2Float : 0.0f);
  return x < 1.0f ? std::numeric_limits<float>::quiet_NaN() : result;
}
inline float atanh(float x) {
  const float a = std::abs(x);
  return std::copysign(0.5f * log1p((a + a) / (1.0f - a)), x);
}

// ---- roots and powers ----

// A guess by a third of the exponent, a step of Halley's, and one of Newton's with the exact
// remainder.
inline float cbrt(float x) {
  const float magnitude = std::abs(x);
  const bool tiny = magnitude<0x1p-100f, huge = magnitude> 0x1p100f;
  const float a = magnitude * (tiny ? 0x1p48f : huge ? 0x1p-48f : 1.0f);
  const float third = static_cast<float>(std::bit_cast<int32_t>(a)) * (1.0f / 3);
  const float guess = std::bit_cast<float>(static_cast<int32_t>(third) + 0x2a512bc0);
  const float cube = guess * guess * guess;
  const float y = guess * ((cube + 2.0f * a) / (2.0f * cube + a));
  const float square = y * y;
  const float remainder = product_minus(square, y, a) + product_minus(y, y, square) * y;
  const float root = y - remainder / (3.0f * square);
  const float result = std::copysign(root * (tiny ? 0x1p-16f : huge ? 0x1p16f : 1.0f), x);
  return x == 0.0f || !(magnitude < kInfinityFloat) ? x : result;
}

// log2 of a positive float in two parts, good to 40 bits: as log, with s = f / (2 + f) in two
// parts.
struct Log2 {
  float high, low;
};
inline Log2 log2_parts(float x) {
  constexpr float kInverseLn2 = 0x1.715476p0f, kInverseLn2Low = 0x1.4ae0c0p-26f;
  const bool tiny = x < 0x1p-126f;
  const uint32_t bits = std::bit_cast<uint32_t>(tiny ? x * 0x1p25f : x) - 0x3f3504f3u;
  const int32_t power = static_cast<int32_t>(bits) >> 23;
  const float k = static_cast<float>(power - (tiny ? 25 : 0));
  const float f = std::bit_cast<float>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float d = 2.0f + f;
  const float d_low = f - (d - 2.0f);
  const float inverse = 1.0f / d;
  const float s = f * inverse;
  const float s_low = -(product_minus(s, d, f) + s * d_low) * inverse;
  const float z = s * s;
  float p = 2.0f / 11;
  p = p * z + 2.0f / 9;
  p = p * z + 2.0f / 7;
  p = p * z + 2.0f / 5;
  p = p * z + 2.0f / 3;
  const float rest = 2.0f * s_low + s * z * p;
  const float twice = 2.0f * s;
  const float first = k + twice * kInverseLn2;
  const float tail =
      product_minus(twice, kInverseLn2, first - k) + (twice * kInverseLn2Low + rest * kInverseLn2);
  const float high = first + tail;
  return {high, tail - (high - first)};
}

// With the special cases of IEEE 754's pow.
inline float pow(float x, float y) {
  const float a = std::abs(x);
  const Log2 parts = log2_parts(a);
  const float nonzero = a < kInfinityFloat ? parts.high : a;
  const float logarithm = a == 0.0f ? -kInfinityFloat : nonzero;
  const float product = y * logarithm;
  const float lost = product_minus(y, logarithm, product) + y * parts.low;
  const float low_bound = product < -160.0f ? -160.0f : product;
  const float power = low_bound > 160.0f ? 160.0f : low_bound;
  const float shifted = power + kRoundFloat;
  const float r = ((power - (shifted - kRoundFloat)) + (std::abs(product) < 160.0f ? lost : 0.0f)) *
                  0x1.62e430p-1f;
  const int32_t n =
      static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRoundFloat));
  const ExpParts e = exp_of_rest(r, n);
  const float magnitude = (e.q * e.scale_a + e.scale_a) * e.scale_b;
  const float unlike_one = a == 1.0f ? 1.0f : magnitude;
  const float positive = y == 0.0f ? 1.0f : unlike_one;
  // What a negative x does: -1 for odd y, NaN for y that is not whole, unless x is -0 or -inf.
  const float half = 0.5f * y;
  const float parity = std::trunc(half) == half ? 1.0f : -1.0f;
  const float finite_factor = a < kInfinityFloat ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
  const float broken = a == 0.0f ? 1.0f : finite_factor;
  const float factor = std::trunc(y) == y ? parity : broken;
  return positive * (std::bit_cast<int32_t>(x) < 0 ? factor : 1.0f);
}

// ---- the complementary error function ----

// e^-a^2 F(t) / (1 + 2 a), F a polynomial in t = (a - 2) / (a + 2); 1 - erf(x) near zero.
inline float erfc(float x) {
  const float magnitude = std::abs(x);
  const float a = magnitude > 10.1f ? 10.1f : magnitude;
  const float t = (a - 2.0f) / (a + 2.0f);
  float p = -0x1.a409c4p-12f;
  p = p * t - 0x1.426b42p-10f;
  p = p * t + 0x1.585532p-10f;
  p = p * t + 0x1.1ad7d2p-7f;
  p = p * t - 0x1.081b24p-7f;
  p = p * t - 0x1.bc0aa8p-5f;
  p = p * t + 0x1.4ffc40p-3f;
  p = p * t - 0x1.540848p-3f;
  p = p * t - 0x1.7bf616p-4f;
  p = p * t + 0x1.46e80ep0f;
  const float quotient = p / (1.0f + 2.0f * a);
  const float square = a * a;
  const float rest = product_minus(a, a, square);
  const float tail = (quotient - quotient * rest) * exp(-square);
  const float far = x < 0.0f ? 2.0f - tail : tail;
  float q = 0x1.565bcep-8f;  // the series of erf
  q = q * square - 0x1.b82ce4p-6f;
  q = q * square + 0x1.ce2f22p-4f;
  q = q * square - 0x1.812746p-2f;
  const float near = 1.0f - (x * square * q + x * 0x1.20dd76p0f);
  return magnitude < 0.25f ? near : far;
}

}  // namespace cleave::fast
