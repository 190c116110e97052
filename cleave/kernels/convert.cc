#include <bit>
#include <cmath>
#include <limits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/loop_families.h"

namespace cleave {
namespace {

template <typename T>
constexpr bool is_complex_type = false;
template <typename T>
constexpr bool is_complex_type<std::complex<T>> = true;
template <typename T>
constexpr bool is_half_type = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// A double as a float that is odd in its last bit unless exact: rounding it once more, to 16 bits,
// gives the same as rounding the double.
float round_to_odd(double value) {
  const auto near = static_cast<float>(value);
  if (static_cast<double>(near) == value || value != value) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::abs(static_cast<double>(near)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

// Toward zero; saturates, and NaN gives 0.
template <typename To, typename From>
To float_to_integer(From value) {
  constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
  // The first value above the range: max() + 1, a power of two.
  constexpr From high = static_cast<From>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
  const bool inside = value > low - 1 && value < high;
  const To truncated = static_cast<To>(inside ? value : From{0});
  if (inside || value != value) return truncated;
  return value < 0 ? std::numeric_limits<To>::min() : std::numeric_limits<To>::max();
}

template <typename To, typename From>
To convert_element(From value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else if constexpr (is_complex_type<From> && is_complex_type<To>) {
    return To(static_cast<typename To::value_type>(value.real()),
              static_cast<typename To::value_type>(value.imag()));
  } else if constexpr (is_complex_type<From>) {
    return convert_element<To>(value.real());
  } else if constexpr (is_complex_type<To>) {
    return To(convert_element<typename To::value_type>(value));
  } else if constexpr (is_half_type<From>) {
    return convert_element<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (is_half_type<To>) {
    if constexpr (std::is_same_v<From, float>) return To(value);
    return To(round_to_odd(static_cast<double>(value)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return float_to_integer<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void convert(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const From*>(in[0]);
  auto* target = reinterpret_cast<To*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) target[i] = convert_element<To>(source[i]);
}

#if defined(__F16C__) && defined(__AVX__)
template <>
void convert<float16, float>(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const float16*>(in[0]);
  auto* target = reinterpret_cast<float*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(
        target + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i))));
  for (; i < n; ++i) target[i] = source[i];
}

template <>
void convert<float, float16>(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const float*>(in[0]);
  auto* target = reinterpret_cast<float16*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) target[i] = static_cast<float16>(source[i]);
}
#endif

template <typename From>
Loop convert_from(DType to) {
  return visit_dtype(to,
                     [](auto tag) -> Loop { return &convert<From, typename decltype(tag)::type>; });
}

}  // namespace

void widen_float16(const std::byte* const* in, std::byte* out, int64_t n) {
  convert<float16, float>(in, out, n);
}
void narrow_float16(const std::byte* const* in, std::byte* out, int64_t n) {
  convert<float, float16>(in, out, n);
}

Loop convert_loop(DType from, DType to) {
  if (from == to) return nullptr;
  if (!has_kernels(from) || !has_kernels(to))
    throw_user("convert: no kernel from {} to {}", name(from), name(to));
  return visit_dtype(from,
                     [&](auto tag) { return convert_from<typename decltype(tag)::type>(to); });
}

}  // namespace cleave
