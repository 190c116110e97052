#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cleave/kernels/loop_families.h"
#include "cleave/kernels/loop_templates.h"

namespace cleave {
namespace {

// Integers wrap: the arithmetic is done on the unsigned type, or on unsigned int for narrow ones.
template <typename T>
using Wrapping = decltype(std::make_unsigned_t<T>{} + 0u);

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    else
      return a + b;
  }
};
struct Subtract {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
    else
      return a - b;
  }
};
struct Multiply {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    else
      return a * b;
  }
};
// Integers: by zero all bits are set; the smallest by -1 is itself.
struct Divide {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return static_cast<T>(~T{0});
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return Subtract::apply(T{0}, a);
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
// The sign of the dividend. Integers: by zero the dividend.
struct Remainder {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return a;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};

template <typename T>
using FloatBits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// NaN wins; +0 is greater than -0.
struct Maximum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a > b ? a : b;
    } else {
      const T both =
          std::bit_cast<T>(std::bit_cast<FloatBits<T>>(a) & std::bit_cast<FloatBits<T>>(b));
      const T greater = (a > b || a != a) ? a : b;
      return a == b ? both : greater;
    }
  }
};
struct Minimum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a < b ? a : b;
    } else {
      const T both =
          std::bit_cast<T>(std::bit_cast<FloatBits<T>>(a) | std::bit_cast<FloatBits<T>>(b));
      const T less = (a < b || a != a) ? a : b;
      return a == b ? both : less;
    }
  }
};
struct IntegerPower {
  template <typename T>
  static T apply(T base, T exponent) {
    if constexpr (std::is_signed_v<T>) {
      if (exponent < 0) {
        if (base != 1 && base != -1) return 0;
        return base == 1 || exponent % 2 == 0 ? 1 : -1;
      }
    }
    T result = 1;
    for (auto e = static_cast<std::make_unsigned_t<T>>(exponent); e; e >>= 1) {
      if (e & 1) result = Multiply::apply(result, base);
      base = Multiply::apply(base, base);
    }
    return result;
  }
};

struct Abs {
  template <typename T>
  static T apply(T a) {
    if constexpr (std::is_unsigned_v<T>)
      return a;
    else if constexpr (std::is_integral_v<T>)
      return a < 0 ? Subtract::apply(T{0}, a) : a;
    else
      return std::abs(a);
  }
};
struct Negate {
  template <typename T>
  static T apply(T a) {
    if constexpr (std::is_integral_v<T>)
      return Subtract::apply(T{0}, a);
    else
      return -a;
  }
};
struct Square {
  template <typename T>
  static T apply(T a) {
    return Multiply::apply(a, a);
  }
};
// Zeros keep their sign, NaN stays.
struct Sign {
  template <typename T>
  static T apply(T a) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>((a > 0) - (std::is_signed_v<T> && a < T{0}));
    else
      return (a == 0 || a != a) ? a : std::copysign(T{1}, a);
  }
};
struct Ceil {
  template <typename T>
  static T apply(T a) {
    return std::ceil(a);
  }
};
struct Floor {
  template <typename T>
  static T apply(T a) {
    return std::floor(a);
  }
};
struct RoundAfz {
  template <typename T>
  static T apply(T a) {
    const T whole = std::trunc(a);
    const T away = std::abs(a - whole) >= T{0.5} ? whole + std::copysign(T{1}, a) : whole;
    return std::copysign(away, a);
  }
};
struct RoundEven {
  template <typename T>
  static T apply(T a) {
    return std::nearbyint(a);
  }
};

struct IsFinite {
  template <typename T>
  static bool apply(T a) {
    return std::abs(a) <= std::numeric_limits<T>::max();
  }
};
struct IsInf {
  template <typename T>
  static bool apply(T a) {
    return std::abs(a) == std::numeric_limits<T>::infinity();
  }
};
struct IsPosInf {
  template <typename T>
  static bool apply(T a) {
    return a == std::numeric_limits<T>::infinity();
  }
};
struct IsNegInf {
  template <typename T>
  static bool apply(T a) {
    return a == -std::numeric_limits<T>::infinity();
  }
};
struct Real {
  template <typename T>
  static T apply(T a) {
    return a;
  }
};
struct Imag {
  template <typename T>
  static T apply(T) {
    return 0;
  }
};

// 16-bit floats, widened in registers.
template <typename F>
struct Wide {
  static bfloat16 apply(bfloat16 a) { return bfloat16(F::apply(static_cast<float>(a))); }
  static bfloat16 apply(bfloat16 a, bfloat16 b) {
    return bfloat16(F::apply(static_cast<float>(a), static_cast<float>(b)));
  }
};
// The compiler does not vectorise conversions of float16: a few at a time, by the loops for them.
constexpr int64_t kWidened = 128;
template <typename F>
void float16_unary_loop(const std::byte* const* in, std::byte* out, int64_t n) {
  alignas(64) float a[kWidened];
  const std::byte* from = in[0];
  const std::byte* wide = reinterpret_cast<const std::byte*>(a);
  for (int64_t begin = 0; begin < n; begin += kWidened) {
    const int64_t count = std::min(kWidened, n - begin);
    widen_float16(&from, reinterpret_cast<std::byte*>(a), count);
    for (int64_t i = 0; i < count; ++i) a[i] = F::apply(a[i]);
    narrow_float16(&wide, out, count);
    from += count * sizeof(float16);
    out += count * sizeof(float16);
  }
}
template <typename F>
void float16_binary_loop(const std::byte* const* in, std::byte* out, int64_t n) {
  alignas(64) float a[kWidened], b[kWidened];
  const std::byte* from[2] = {in[0], in[1]};
  const std::byte* wide = reinterpret_cast<const std::byte*>(a);
  for (int64_t begin = 0; begin < n; begin += kWidened) {
    const int64_t count = std::min(kWidened, n - begin);
    widen_float16(&from[0], reinterpret_cast<std::byte*>(a), count);
    widen_float16(&from[1], reinterpret_cast<std::byte*>(b), count);
    for (int64_t i = 0; i < count; ++i) a[i] = F::apply(a[i], b[i]);
    narrow_float16(&wide, out, count);
    for (const std::byte*& operand : from) operand += count * sizeof(float16);
    out += count * sizeof(float16);
  }
}
template <typename F>
Loop unary_half_loop(DType dtype) {
  return dtype == DType::BF16 ? &unary_loop_of<Wide<F>, bfloat16> : &float16_unary_loop<F>;
}
template <typename F>
Loop binary_half_loop(DType dtype) {
  return dtype == DType::BF16 ? &binary_loop_of<Wide<F>, bfloat16> : &float16_binary_loop<F>;
}

template <typename F>
Loop unary_number_loop(DType dtype) {
  return is_float(dtype) ? unary_float_loop<F>(dtype) : unary_integer_loop<F>(dtype);
}
template <typename F>
Loop binary_number_loop(DType dtype) {
  return is_float(dtype) ? binary_float_loop<F>(dtype) : binary_integer_loop<F>(dtype);
}

}  // namespace

Loop arithmetic_unary_loop(UnaryOp op, DType dtype) {
  if (!is_float(dtype) && !is_integer(dtype)) return nullptr;
  switch (op) {
    case UnaryOp::Abs:
      return unary_number_loop<Abs>(dtype);
    case UnaryOp::Negate:
      return unary_number_loop<Negate>(dtype);
    case UnaryOp::Sign:
      return unary_number_loop<Sign>(dtype);
    case UnaryOp::Square:
      return unary_number_loop<Square>(dtype);
    default:
      break;
  }
  if (!is_float(dtype)) return nullptr;
  switch (op) {
    case UnaryOp::Ceil:
      return unary_float_loop<Ceil>(dtype);
    case UnaryOp::Floor:
      return unary_float_loop<Floor>(dtype);
    case UnaryOp::RoundAfz:
      return unary_float_loop<RoundAfz>(dtype);
    case UnaryOp::RoundEven:
      return unary_float_loop<RoundEven>(dtype);
    case UnaryOp::IsFinite:
      return unary_float_loop<IsFinite>(dtype);
    case UnaryOp::IsInf:
      return unary_float_loop<IsInf>(dtype);
    case UnaryOp::IsPosInf:
      return unary_float_loop<IsPosInf>(dtype);
    case UnaryOp::IsNegInf:
      return unary_float_loop<IsNegInf>(dtype);
    case UnaryOp::Real:
    case UnaryOp::Conj:
      return unary_float_loop<Real>(dtype);
    case UnaryOp::Imag:
      return unary_float_loop<Imag>(dtype);
    default:
      return nullptr;
  }
}

Loop arithmetic_binary_loop(BinaryOp op, DType dtype) {
  if (!is_float(dtype) && !is_integer(dtype)) return nullptr;
  switch (op) {
    case BinaryOp::Add:
      return binary_number_loop<Add>(dtype);
    case BinaryOp::Subtract:
      return binary_number_loop<Subtract>(dtype);
    case BinaryOp::Multiply:
      return binary_number_loop<Multiply>(dtype);
    case BinaryOp::Divide:
      return binary_number_loop<Divide>(dtype);
    case BinaryOp::Remainder:
      return binary_number_loop<Remainder>(dtype);
    case BinaryOp::Maximum:
      return binary_number_loop<Maximum>(dtype);
    case BinaryOp::Minimum:
      return binary_number_loop<Minimum>(dtype);
    case BinaryOp::Power:
      return is_integer(dtype) ? binary_integer_loop<IntegerPower>(dtype) : nullptr;
    default:
      return nullptr;
  }
}

Loop half_unary_loop(UnaryOp op, DType dtype) {
  switch (op) {
    case UnaryOp::Abs:
      return unary_half_loop<Abs>(dtype);
    case UnaryOp::Negate:
      return unary_half_loop<Negate>(dtype);
    case UnaryOp::Square:
      return unary_half_loop<Square>(dtype);
    default:
      return nullptr;
  }
}

Loop half_binary_loop(BinaryOp op, DType dtype) {
  switch (op) {
    case BinaryOp::Add:
      return binary_half_loop<Add>(dtype);
    case BinaryOp::Subtract:
      return binary_half_loop<Subtract>(dtype);
    case BinaryOp::Multiply:
      return binary_half_loop<Multiply>(dtype);
    case BinaryOp::Divide:
      return binary_half_loop<Divide>(dtype);
    case BinaryOp::Maximum:
      return binary_half_loop<Maximum>(dtype);
    case BinaryOp::Minimum:
      return binary_half_loop<Minimum>(dtype);
    default:
      return nullptr;
  }
}

}  // namespace cleave
