#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cleave/kernels/float16.h"

// One element from one C++ type to another, as stablehlo.convert does it.
namespace cleave {

template <typename T>
constexpr bool is_complex_type = false;
template <typename T>
constexpr bool is_complex_type<std::complex<T>> = true;
template <typename T>
constexpr bool is_half_type = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// A double as a float that is odd in its last bit unless exact: rounding it once more, to 16 bits,
// gives the same as rounding the double.
inline float round_to_odd(double value) {
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

}  // namespace cleave
