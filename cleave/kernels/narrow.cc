#include "cleave/kernels/narrow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/kernels/convert_element.h"
#include "cleave/kernels/dispatch.h"

namespace cleave {
namespace {

enum class Specials : uint8_t {
  Ieee,          // infinities and NaNs in the highest exponent
  AllOnes,       // no infinity; NaN where exponent and mantissa are all ones
  NegativeZero,  // no infinity; the pattern of -0 is the NaN
  None,          // finite only
};

struct Format {
  int exponent_bits, mantissa_bits, bias;
  Specials specials = Specials::Ieee;
  bool has_sign = true;

  unsigned sign() const { return has_sign ? 1u << (exponent_bits + mantissa_bits) : 0; }
  unsigned all_ones() const { return (1u << (exponent_bits + mantissa_bits)) - 1; }
  // The last pattern without a sign that is a number.
  unsigned largest() const {
    if (specials == Specials::Ieee) return (all_ones() >> mantissa_bits << mantissa_bits) - 1;
    return all_ones() - (specials == Specials::AllOnes ? 1 : 0);
  }
  // Of a pattern without a sign, as if numbers went on for ever.
  double magnitude(unsigned bits) const {
    const unsigned exponent = bits >> mantissa_bits;
    const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
    const bool subnormal = exponent == 0 && has_sign;
    const unsigned digits = mantissa | (subnormal ? 0 : 1u << mantissa_bits);
    return std::ldexp(digits, static_cast<int>(subnormal ? 1 : exponent) - bias - mantissa_bits);
  }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F4E2M1FN:
      return {2, 1, 1, Specials::None};
    case DType::F6E2M3FN:
      return {2, 3, 1, Specials::None};
    case DType::F6E3M2FN:
      return {3, 2, 3, Specials::None};
    case DType::F8E3M4:
      return {3, 4, 3};
    case DType::F8E4M3:
      return {4, 3, 7};
    case DType::F8E4M3FN:
      return {4, 3, 7, Specials::AllOnes};
    case DType::F8E4M3FNUZ:
      return {4, 3, 8, Specials::NegativeZero};
    case DType::F8E4M3B11FNUZ:
      return {4, 3, 11, Specials::NegativeZero};
    case DType::F8E5M2:
      return {5, 2, 15};
    case DType::F8E5M2FNUZ:
      return {5, 2, 16, Specials::NegativeZero};
    case DType::F8E8M0FNU:
      return {8, 0, 127, Specials::AllOnes, false};
    default:
      throw_internal("{} is not a narrow float", name(dtype));
  }
}

float value_of(const Format& format, unsigned bits) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const bool negative = bits & format.sign();
  bits &= format.all_ones();
  if (format.specials == Specials::NegativeZero && negative && bits == 0) return nan;
  float value = nan;
  if (bits <= format.largest()) value = static_cast<float>(format.magnitude(bits));
  if (format.specials == Specials::Ieee && bits == format.largest() + 1)
    value = std::numeric_limits<float>::infinity();
  return negative ? -value : value;
}

uint8_t bits_of(const Format& format, double value) {
  const unsigned sign = std::signbit(value) ? format.sign() : 0;
  const unsigned nan = format.specials == Specials::NegativeZero ? format.sign()
                       : format.specials == Specials::None       ? format.sign()
                       : format.specials == Specials::AllOnes
                           ? sign | format.all_ones()
                           : sign | (format.largest() + 1) | 1u << (format.mantissa_bits - 1);
  if (value != value) return static_cast<uint8_t>(nan);
  if (!format.has_sign && !(value > 0)) return static_cast<uint8_t>(nan);
  const double size = std::abs(value);
  const unsigned largest = format.largest();
  // The last pattern that is not above it; then the nearer of that and the next, the even one of
  // two that are equally near.
  unsigned low = 0, high = largest + 1;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (format.magnitude(middle) <= size ? low : high) = middle;
  }
  const double below = size - format.magnitude(low), above = format.magnitude(low + 1) - size;
  const bool tie_up = low % 2 == 1 || format.mantissa_bits == 0;  // powers of two: the larger
  unsigned bits = above < below || (above == below && tie_up) ? low + 1 : low;
  // Powers of two, as ml_dtypes and XLA have it: what lies above the smallest becomes the next.
  if (format.mantissa_bits == 0 && low == 0 && below > 0) bits = 1;
  if (size < format.magnitude(0)) bits = 0;
  if (bits > largest) {
    if (format.specials == Specials::None) return static_cast<uint8_t>(sign | largest);
    if (format.specials == Specials::Ieee) return static_cast<uint8_t>(sign | bits);
    return static_cast<uint8_t>(nan);
  }
  if (format.specials == Specials::NegativeZero && bits == 0) return 0;
  return static_cast<uint8_t>(sign | bits);
}

constexpr int kFirst = static_cast<int>(DType::I2);
constexpr int kCount = static_cast<int>(DType::F8E8M0FNU) - kFirst + 1;

using Values = std::array<float, 256>;

// All values of a type, integers included.
const Values& values_of(DType dtype) {
  static const auto tables = [] {
    std::array<Values, kCount> all{};
    for (int i = 0; i < kCount; ++i)
      for (unsigned bits = 0; bits < 256; ++bits) {
        const auto type = static_cast<DType>(kFirst + i);
        all[i][bits] = is_float(type)            ? value_of(format_of(type), bits)
                       : is_signed_integer(type) ? static_cast<float>(static_cast<int8_t>(bits))
                                                 : static_cast<float>(bits);
      }
    return all;
  }();
  return tables[static_cast<int>(dtype) - kFirst];
}

uint8_t wrapped(DType dtype, uint64_t bits) {
  const int unused = 8 - bit_width(dtype);
  const auto high = static_cast<uint8_t>(bits << unused);
  return is_signed_integer(dtype) ? static_cast<uint8_t>(static_cast<int8_t>(high) >> unused)
                                  : static_cast<uint8_t>(high >> unused);
}

uint8_t saturated(DType dtype, double value) {
  const int bits = bit_width(dtype);
  const double high = is_signed_integer(dtype) ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
  const double low = is_signed_integer(dtype) ? -high - 1 : 0;
  if (value != value) return 0;
  return static_cast<uint8_t>(static_cast<int8_t>(std::trunc(std::clamp(value, low, high))));
}

template <typename From>
uint8_t narrowed(DType to, From value) {
  if constexpr (is_complex_type<From>) {
    return narrowed(to, value.real());
  } else if constexpr (is_half_type<From>) {
    return narrowed(to, static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<From>) {
    return is_float(to) ? narrow_float_bits(to, static_cast<double>(value))
                        : saturated(to, static_cast<double>(value));
  } else {
    return is_float(to) ? narrow_float_bits(to, static_cast<double>(value))
                        : wrapped(to, static_cast<uint64_t>(value));
  }
}

template <DType kFrom, typename To>
void widen(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const uint8_t*>(in[0]);
  auto* target = reinterpret_cast<To*>(out);
  const Values& values = values_of(kFrom);
  for (int64_t i = 0; i < n; ++i) target[i] = convert_element<To>(values[source[i]]);
}

template <typename From, DType kTo>
void narrow(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const From*>(in[0]);
  auto* target = reinterpret_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) target[i] = narrowed(kTo, source[i]);
}

template <DType kFrom, DType kTo>
void exchange(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* source = reinterpret_cast<const uint8_t*>(in[0]);
  auto* target = reinterpret_cast<uint8_t*>(out);
  const Values& values = values_of(kFrom);
  for (int64_t i = 0; i < n; ++i)
    target[i] = is_float(kFrom) ? narrowed(kTo, values[source[i]])
                                : narrowed(kTo, static_cast<int64_t>(values[source[i]]));
}

// Calls visit(std::integral_constant<DType, T>) with a narrow type.
template <int kIndex = 0, typename Visit>
Loop visit_narrow(DType dtype, Visit&& visit) {
  if constexpr (kIndex == kCount) {
    return nullptr;
  } else {
    constexpr auto type = static_cast<DType>(kFirst + kIndex);
    if (dtype == type) return visit(std::integral_constant<DType, type>{});
    return visit_narrow<kIndex + 1>(dtype, visit);
  }
}

}  // namespace

bool is_narrow(DType dtype) { return dtype >= DType::I2 && dtype <= DType::F8E8M0FNU; }

DType wide_type(DType narrow) {
  if (!is_narrow(narrow)) return narrow;
  if (is_float(narrow)) return DType::F32;
  return is_signed_integer(narrow) ? DType::I8 : DType::U8;
}

float narrow_float_value(DType dtype, uint8_t bits) { return values_of(dtype)[bits]; }

uint8_t narrow_float_bits(DType dtype, double value) { return bits_of(format_of(dtype), value); }

Loop narrow_convert_loop(DType from, DType to) {
  if (!(is_narrow(from) || has_kernels(from)) || !(is_narrow(to) || has_kernels(to)))
    return nullptr;
  if (!is_narrow(to))
    return visit_narrow(from, [&](auto narrow_type) {
      return visit_dtype(to, [](auto tag) -> Loop {
        return &widen<decltype(narrow_type)::value, typename decltype(tag)::type>;
      });
    });
  return visit_narrow(to, [&](auto target) -> Loop {
    using Target = decltype(target);
    if (is_narrow(from))
      return visit_narrow(from, [](auto source) -> Loop {
        return &exchange<decltype(source)::value, Target::value>;
      });
    return visit_dtype(from, [](auto tag) -> Loop {
      return &narrow<typename decltype(tag)::type, Target::value>;
    });
  });
}

}  // namespace cleave
