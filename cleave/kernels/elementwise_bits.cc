#include <bit>
#include <cmath>

#include "cleave/kernels/loop_families.h"
#include "cleave/kernels/loop_templates.h"

namespace cleave {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
constexpr int kBits = static_cast<int>(sizeof(T) * 8);

struct And {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  static T apply(T a) {
    if constexpr (std::is_same_v<T, bool>)
      return !a;
    else
      return static_cast<T>(~a);
  }
};
// Shifts by the width or more, or by a negative count, push every bit out.
struct ShiftLeft {
  template <typename T>
  static T apply(T a, T count) {
    const auto by = static_cast<Unsigned<T>>(count);
    return by < kBits<T> ? static_cast<T>(static_cast<Unsigned<T>>(a) << by) : T{0};
  }
};
struct ShiftRightLogical {
  template <typename T>
  static T apply(T a, T count) {
    const auto by = static_cast<Unsigned<T>>(count);
    return by < kBits<T> ? static_cast<T>(static_cast<Unsigned<T>>(a) >> by) : T{0};
  }
};
struct ShiftRightArithmetic {
  template <typename T>
  static T apply(T a, T count) {
    const auto by = static_cast<Unsigned<T>>(count);
    const auto whole = static_cast<std::make_signed_t<T>>(a);
    return static_cast<T>(whole >> (by < kBits<T> ? by : kBits<T> - 1));
  }
};
// The upper half of the product.
struct MulHi {
  template <typename T>
  static T apply(T a, T b) {
    using Wide =
        std::conditional_t<sizeof(T) == 8,
                           std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                           std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> kBits<T>);
  }
};
struct Popcnt {
  template <typename T>
  static T apply(T a) {
    return static_cast<T>(std::popcount(static_cast<Unsigned<T>>(a)));
  }
};
struct CountLeadingZeros {
  template <typename T>
  static T apply(T a) {
    return static_cast<T>(std::countl_zero(static_cast<Unsigned<T>>(a)));
  }
};

// bool as numbers of one bit: add is or, multiply is and, and so on.
struct BoolSubtract {
  static bool apply(bool a, bool b) { return a != b; }
};

// The neighbour of a in the direction of b, on the bits of the type itself.
template <typename T>
struct NextAfter {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  template <typename U>
  static T apply(U a, U b) {
    constexpr Bits kSign = Bits{1} << (sizeof(T) * 8 - 1);
    const double from = static_cast<double>(a), to = static_cast<double>(b);
    if (from != from) return a;
    if (to != to || from == to) return b;
    const Bits bits = std::bit_cast<Bits>(a);
    if (from == 0) return std::bit_cast<T>(static_cast<Bits>(to < 0 ? kSign | 1 : 1));
    const bool outwards = (from < to) == (from > 0);
    return std::bit_cast<T>(static_cast<Bits>(outwards ? bits + 1 : bits - 1));
  }
};

template <typename F>
Loop binary_bits_loop(DType dtype) {
  return dtype == DType::Bool ? &binary_loop_of<F, bool> : binary_integer_loop<F>(dtype);
}

}  // namespace

Loop bits_unary_loop(UnaryOp op, DType dtype) {
  if (op == UnaryOp::Not && dtype == DType::Bool) return &unary_loop_of<Not, bool>;
  if (!is_integer(dtype)) return nullptr;
  switch (op) {
    case UnaryOp::Not:
      return unary_integer_loop<Not>(dtype);
    case UnaryOp::Popcnt:
      return unary_integer_loop<Popcnt>(dtype);
    case UnaryOp::CountLeadingZeros:
      return unary_integer_loop<CountLeadingZeros>(dtype);
    default:
      return nullptr;
  }
}

Loop bits_binary_loop(BinaryOp op, DType dtype) {
  const bool boolean = dtype == DType::Bool;
  if (!boolean && !is_integer(dtype)) return nullptr;
  switch (op) {
    case BinaryOp::And:
      return binary_bits_loop<And>(dtype);
    case BinaryOp::Or:
      return binary_bits_loop<Or>(dtype);
    case BinaryOp::Xor:
      return binary_bits_loop<Xor>(dtype);
    case BinaryOp::Add:
    case BinaryOp::Maximum:
      return boolean ? &binary_loop_of<Or, bool> : nullptr;
    case BinaryOp::Multiply:
    case BinaryOp::Minimum:
      return boolean ? &binary_loop_of<And, bool> : nullptr;
    case BinaryOp::Subtract:
      return boolean ? &binary_loop_of<BoolSubtract, bool> : nullptr;
    default:
      break;
  }
  if (boolean) return nullptr;
  switch (op) {
    case BinaryOp::ShiftLeft:
      return binary_integer_loop<ShiftLeft>(dtype);
    case BinaryOp::ShiftRightArithmetic:
      return binary_integer_loop<ShiftRightArithmetic>(dtype);
    case BinaryOp::ShiftRightLogical:
      return binary_integer_loop<ShiftRightLogical>(dtype);
    case BinaryOp::MulHi:
      return binary_integer_loop<MulHi>(dtype);
    default:
      return nullptr;
  }
}

Loop next_after_loop(DType dtype) {
  return visit_float(dtype, [](auto tag) -> Loop {
    using T = typename decltype(tag)::type;
    return &binary_loop_of<NextAfter<T>, T>;
  });
}

}  // namespace cleave
