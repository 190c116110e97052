#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Functions of floats without branches, so that compilers vectorise loops of them. exp and log are
// right to one unit in the last place; sin, cos, erf and log1p to one and a half; expm1, logistic
// and tanh to two and a half; tan to three and a half.
namespace cleave::fast {

inline constexpr float kRoundFloat = 0x1.8p23f;  // adding it leaves the integer in the low bits
inline constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
inline constexpr float kInfinityFloat = std::numeric_limits<float>::infinity();

// x = n ln2 + r. e^x = 2^n (1 + q), with 2^n in two parts that are both normal.
struct ExpParts {
  float q;
  float scale_a, scale_b;
};
inline ExpParts exp_of_rest(float r, int32_t n) {
  float p = 0x1.6db4e4p-10f;  // fitted for |r| up to ln2 / 2
  p = p * r + 0x1.123be0p-7f;
  p = p * r + 0x1.55545ep-5f;
  p = p * r + 0x1.55548ep-3f;
  p = p * r + 0.5f;
  const float q = (p * r) * r + r;
  const int32_t half = n >> 1;
  return {q, std::bit_cast<float>((half + 127) << 23),
          std::bit_cast<float>((n - half + 127) << 23)};
}
inline ExpParts exp_parts(float x) {
  const float shifted = x * 0x1.715476p0f + kRoundFloat;
  const float n = shifted - kRoundFloat;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  return exp_of_rest(r, static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) -
                                             std::bit_cast<uint32_t>(kRoundFloat)));
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

inline float logistic(float x) {
  const float e = exp(-std::abs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

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
inline float log_of_parts(float f, float k) {
  const float s = f / (2.0f + f);
  const float z = s * s;
  float p = 2.0f / 9;
  p = p * z + 2.0f / 7;
  p = p * z + 2.0f / 5;
  p = p * z + 2.0f / 3;
  const float half = 0.5f * f * f;
  return k * kLn2High - ((half - (s * (half + z * p) + k * kLn2Low)) - f);
}

inline float log(float x) {
  const bool tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p25f : x;
  const uint32_t bits = std::bit_cast<uint32_t>(scaled) - 0x3f3504f3u;
  const int32_t power = static_cast<int32_t>(bits) >> 23;
  const float m = std::bit_cast<float>((bits & 0x007fffffu) + 0x3f3504f3u);
  const float result = log_of_parts(m - 1.0f, static_cast<float>(power - (tiny ? 25 : 0)));
  const float finite = x < kInfinityFloat ? result : x;
  const float special = x == 0.0f ? -kInfinityFloat : std::numeric_limits<float>::quiet_NaN();
  return x > 0.0f ? finite : special;
}

inline float expm1(float x) {
  const float low = x < -40.0f ? -40.0f : x;
  const ExpParts parts = exp_parts(low > 90.0f ? 90.0f : low);
  const float inverse_b = std::bit_cast<float>((254 << 23) - std::bit_cast<int32_t>(parts.scale_b));
  const float result = (parts.q * parts.scale_a + (parts.scale_a - inverse_b)) * parts.scale_b;
  const float nonzero = x != x ? x : result;
  return x == 0.0f ? x : nonzero;
}

// As log, of u = 1 + x, whose rounding error goes into f.
inline float log1p(float x) {
  const float u = 1.0f + x;
  const float lost = std::abs(x) < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x);
  const uint32_t bits = std::bit_cast<uint32_t>(u) - 0x3f3504f3u;
  const int32_t power = static_cast<int32_t>(bits) >> 23;
  const int32_t exponent = 127 - power;
  const float scale = std::bit_cast<float>((exponent < 0 ? 0 : exponent) << 23);  // 2^-k
  const float m = std::bit_cast<float>((bits & 0x007fffffu) + 0x3f3504f3u);
  const float result = log_of_parts((m - 1.0f) + lost * scale, static_cast<float>(power));
  const float finite = x < kInfinityFloat ? result : x;
  const float special = u == 0.0f ? -kInfinityFloat : std::numeric_limits<float>::quiet_NaN();
  const float nonzero = u > 0.0f ? finite : special;
  return x == 0.0f ? x : nonzero;
}

// ---- angles ----

#if defined(__FMA__)
inline constexpr bool kHasFma = true;
#else
inline constexpr bool kHasFma = false;
#endif

// x = n pi/2 + r with |r| up to pi/4, for |x| up to kMaxAngle. The first step is exact, and the
// second and third round what is left.
inline constexpr float kMaxAngle = 1e5f;
struct Angle {
  float r;
  uint32_t quadrant;
};
inline Angle reduce_angle(float x) {
  const float shifted = x * 0x1.45f306p-1f + kRoundFloat;
  const float n = shifted - kRoundFloat;
  const auto quadrant = std::bit_cast<uint32_t>(shifted);
  if constexpr (kHasFma) {
    const float high = std::fma(n, -0x1.921fb6p0f, x);
    const float middle = std::fma(n, 0x1.777a5cp-25f, high);
    return {std::fma(n, 0x1.ee59dap-50f, middle), quadrant};
  } else {
    const double turns = n;
    const double r = (x - turns * 0x1.921fb544p0) - turns * 0x1.0b4611a626331p-34;
    return {static_cast<float>(r), quadrant};
  }
}

// Polynomials in z = r^2, fitted on [-pi/4, pi/4].
inline float sin_polynomial(float r, float z) {
  float p = -0x1.994e5ap-13f;
  p = p * z + 0x1.110760p-7f;
  p = p * z - 0x1.555546p-3f;
  return (p * z) * r + r;
}
inline float cos_polynomial(float z) {
  float p = 0x1.9a0208p-16f;
  p = p * z - 0x1.6c0c8ap-10f;
  p = p * z + 0x1.55554ap-5f;
  p = p * z - 0.5f;
  return p * z + 1.0f;
}

inline float sin_or_cos(float x, uint32_t quarter_turns) {
  const Angle angle = reduce_angle(x);
  const uint32_t quadrant = angle.quadrant + quarter_turns;
  const float z = angle.r * angle.r;
  const float value = quadrant & 1 ? cos_polynomial(z) : sin_polynomial(angle.r, z);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ (quadrant & 2) << 30);
}
inline float sin(float x) {
  const float result = sin_or_cos(x, 0);
  return x == 0.0f ? x : result;
}
inline float cos(float x) { return sin_or_cos(x, 1); }
inline float tan(float x) {
  const Angle angle = reduce_angle(x);
  const float z = angle.r * angle.r;
  const float s = sin_polynomial(angle.r, z), c = cos_polynomial(z);
  const bool odd = angle.quadrant & 1;
  const float result = (odd ? -c : s) / (odd ? s : c);
  return x == 0.0f ? x : result;
}

// ---- the error function ----

// Up to 1, x + x P(x^2); beyond, 1 - e^-Q(|x|), where Q fits -log(erfc).
inline float erf(float x) {
  const float z = x * x;
  float p = 0x1.4ae4c6p-14f;
  p = p * z - 0x1.a485e8p-11f;
  p = p * z + 0x1.5419f4p-8f;
  p = p * z - 0x1.b7fbb4p-6f;
  p = p * z + 0x1.ce2d20p-4f;
  p = p * z - 0x1.81273ep-2f;
  p = p * z + 0x1.06eba8p-3f;
  const float near = p * x + x;
  const float magnitude = std::abs(x);
  const float a = magnitude > 4.0f ? 4.0f : magnitude;
  float q = -0x1.852dc4p-13f;
  q = q * a + 0x1.814d24p-9f;
  q = q * a - 0x1.654246p-6f;
  q = q * a + 0x1.a60a96p-4f;
  q = q * a + 0x1.46c582p-1f;
  q = q * a + 0x1.2085b2p0f;
  q = q * a + 0x1.72e404p-12f;
  const ExpParts parts = exp_parts(-q);
  const float scale = parts.scale_a * parts.scale_b;
  const float far = 1.0f - (parts.q * scale + scale);
  return magnitude < 1.0f ? near : std::copysign(far, x);
}

}  // namespace cleave::fast
