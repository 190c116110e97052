#include <array>
#include <bit>
#include <limits>

#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/loop_templates.h"

namespace cleave {
namespace {

struct Eq {
  template <typename T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <typename T>
  static bool apply(T a, T b) {
    return a != b;
  }
};
struct Ge {
  template <typename T>
  static bool apply(T a, T b) {
    return a >= b;
  }
};
struct Gt {
  template <typename T>
  static bool apply(T a, T b) {
    return a > b;
  }
};
struct Le {
  template <typename T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct Lt {
  template <typename T>
  static bool apply(T a, T b) {
    return a < b;
  }
};

// An integer that orders as totalOrder does.
template <typename T>
auto order_key(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const Bits bits = std::bit_cast<Bits>(value);
  return bits < 0 ? std::numeric_limits<Bits>::max() ^ bits : bits;
}
template <typename F>
struct TotalOrder {
  template <typename T>
  static bool apply(T a, T b) {
    return F::apply(order_key(a), order_key(b));
  }
};

template <typename F>
Loop ordered_loop(DType dtype, bool total_order) {
  if (dtype == DType::Bool) return &binary_loop_of<F, bool>;
  if (is_integer(dtype)) return binary_integer_loop<F>(dtype);
  if (is_complex(dtype)) return nullptr;
  return total_order ? binary_float_loop<TotalOrder<F>>(dtype) : binary_float_loop<F>(dtype);
}
template <typename F>
Loop equality_loop(DType dtype, bool total_order) {
  return is_complex(dtype) ? binary_complex_loop<F>(dtype) : ordered_loop<F>(dtype, total_order);
}

template <typename T>
void select_elements(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* pred = reinterpret_cast<const uint8_t*>(in[0]);
  const auto* a = reinterpret_cast<const T*>(in[1]);
  const auto* b = reinterpret_cast<const T*>(in[2]);
  auto* r = reinterpret_cast<T*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = pred[i] ? a[i] : b[i];
}

template <typename Bits>
struct FloatFormat {
  int mantissa;
  int exponent;

  Bits reduce(Bits bits, int to_exponent, int to_mantissa) const {
    const Bits sign = bits & (Bits{1} << (mantissa + exponent));
    const Bits infinity = ((Bits{1} << exponent) - 1) << mantissa;
    if ((bits ^ sign) > infinity) return to_mantissa > 0 ? bits : Bits(sign | infinity);
    if (to_mantissa < mantissa) {
      const Bits unit = Bits{1} << (mantissa - to_mantissa);
      const Bits even = (bits & unit) ? 1 : 0;
      bits = Bits(bits + (unit >> 1) - 1 + even) & Bits(~(unit - 1));
    }
    if (to_exponent < exponent) {
      const Bits bias = (Bits{1} << (exponent - 1)) - 1;
      const Bits reduced = (Bits{1} << (to_exponent - 1)) - 1;
      const Bits field = bits & infinity;
      if (field > Bits(bias + reduced) << mantissa) return sign | infinity;
      if (field <= Bits(bias - reduced) << mantissa) return sign;
    }
    return bits;
  }
};

template <typename Bits>
Array reduce_bits(const Array& x, FloatFormat<Bits> format, int exponent_bits, int mantissa_bits) {
  Array result = x.copy();
  auto* bits = result.data<Bits>();
  for (int64_t i = 0, n = result.num_elements(); i < n; ++i)
    bits[i] = format.reduce(bits[i], exponent_bits, mantissa_bits);
  return result;
}

}  // namespace

LoopChoice compare_loop(CompareOp op, DType dtype, bool total_order) {
  if (!has_kernels(dtype)) return {};
  const DType in = compute_dtype(dtype);
  Loop loop = nullptr;
  switch (op) {
    case CompareOp::Eq:
      loop = equality_loop<Eq>(in, total_order);
      break;
    case CompareOp::Ne:
      loop = equality_loop<Ne>(in, total_order);
      break;
    case CompareOp::Ge:
      loop = ordered_loop<Ge>(in, total_order);
      break;
    case CompareOp::Gt:
      loop = ordered_loop<Gt>(in, total_order);
      break;
    case CompareOp::Le:
      loop = ordered_loop<Le>(in, total_order);
      break;
    case CompareOp::Lt:
      loop = ordered_loop<Lt>(in, total_order);
      break;
  }
  return {loop, in, DType::Bool};
}

Loop select_loop(DType dtype) {
  return visit_size(
      dtype, [](auto tag) -> Loop { return &select_elements<typename decltype(tag)::type>; });
}

Array select(const Array& pred, const Array& on_true, const Array& on_false) {
  if (pred.rank() == 0 && on_true.rank() != 0) return *pred.data<bool>() ? on_true : on_false;
  const DType dtype = on_true.dtype();
  const std::array operands = {pred, on_true, on_false};
  const std::array in = {DType::Bool, dtype, dtype};
  return run_loop(select_loop(dtype), operands, in, dtype, dtype);
}

Array reduce_precision(const Array& x, int exponent_bits, int mantissa_bits) {
  switch (x.dtype()) {
    case DType::F16:
      return reduce_bits(x, FloatFormat<uint16_t>{10, 5}, exponent_bits, mantissa_bits);
    case DType::BF16:
      return reduce_bits(x, FloatFormat<uint16_t>{7, 8}, exponent_bits, mantissa_bits);
    case DType::F32:
      return reduce_bits(x, FloatFormat<uint32_t>{23, 8}, exponent_bits, mantissa_bits);
    case DType::F64:
      return reduce_bits(x, FloatFormat<uint64_t>{52, 11}, exponent_bits, mantissa_bits);
    default:
      throw_user("reduce_precision has no kernel for {}", name(x.dtype()));
  }
}

}  // namespace cleave
