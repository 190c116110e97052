#include <cmath>

#include "cleave/kernels/fast_math.h"
#include "cleave/kernels/loop_families.h"
#include "cleave/kernels/loop_templates.h"
#include "cleave/kernels/special.h"

namespace cleave {
namespace {

// A function of doubles as loops: float operands are widened, and results rounded.
template <double (*f)(double)>
struct Function {
  template <typename T>
  static T apply(T a) {
    return static_cast<T>(f(static_cast<double>(a)));
  }
};
template <double (*f)(double, double)>
struct Function2 {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(f(static_cast<double>(a), static_cast<double>(b)));
  }
};

// `fast` for float operands, in double or in float; `exact` for double ones.
template <double (*fast)(double), double (*exact)(double)>
Loop fast_loop(DType dtype) {
  return dtype == DType::F64 ? &unary_loop_of<Function<exact>, double>
                             : &unary_loop_of<Function<fast>, float>;
}
template <float (*f)(float)>
struct FloatFunction {
  static float apply(float a) { return f(a); }
};
template <float (*fast)(float), double (*exact)(double)>
Loop float_loop(DType dtype) {
  return dtype == DType::F64 ? &unary_loop_of<Function<exact>, double>
                             : &unary_loop_of<FloatFunction<fast>, float>;
}
template <double (*f)(double)>
Loop loop(DType dtype) {
  return unary_float_loop<Function<f>>(dtype);
}

// Where a block holds an angle too large for the quick reduction, the library's function takes
// over.
template <double (*fast)(double), double (*exact)(double)>
void angle_loop(const std::byte* const* in, std::byte* out, int64_t n) {
  constexpr int64_t kBlock = 512;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    const std::byte* block = in[0] + begin * sizeof(float);
    const auto* angles = reinterpret_cast<const float*>(block);
    bool small = true;
    for (int64_t i = 0; i < count; ++i)
      small &= std::abs(angles[i]) <= static_cast<float>(fast::kMaxAngle);
    const Loop chosen =
        small ? &unary_loop_of<Function<fast>, float> : &unary_loop_of<Function<exact>, float>;
    chosen(&block, out + begin * sizeof(float), count);
  }
}

struct Sqrt {
  template <typename T>
  static T apply(T a) {
    return std::sqrt(a);
  }
};

struct Rsqrt {
  template <typename T>
  static T apply(T a) {
    return 1 / std::sqrt(a);
  }
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

Loop math_unary_loop(UnaryOp op, DType dtype) {
  if (!is_float(dtype)) return nullptr;
  switch (op) {
    case UnaryOp::Cbrt:
      return loop<std::cbrt>(dtype);
    case UnaryOp::Cos:
      return dtype == DType::F64 ? loop<std::cos>(dtype) : &angle_loop<fast::cos, std::cos>;
    case UnaryOp::Sin:
      return dtype == DType::F64 ? loop<std::sin>(dtype) : &angle_loop<fast::sin, std::sin>;
    case UnaryOp::Exp:
      return float_loop<fast::exp, std::exp>(dtype);
    case UnaryOp::Expm1:
      return fast_loop<fast::expm1, std::expm1>(dtype);
    case UnaryOp::Log:
      return float_loop<fast::log, std::log>(dtype);
    case UnaryOp::Log1p:
      return fast_loop<fast::log1p, std::log1p>(dtype);
    case UnaryOp::Logistic:
      return float_loop<fast::logistic, logistic>(dtype);
    case UnaryOp::Tanh:
      return float_loop<fast::tanh, std::tanh>(dtype);
    case UnaryOp::Rsqrt:
      return unary_float_loop<Rsqrt>(dtype);
    case UnaryOp::Sqrt:
      return unary_float_loop<Sqrt>(dtype);
    case UnaryOp::Tan:
      return loop<std::tan>(dtype);
    case UnaryOp::Acos:
      return loop<std::acos>(dtype);
    case UnaryOp::Acosh:
      return loop<std::acosh>(dtype);
    case UnaryOp::Asin:
      return loop<std::asin>(dtype);
    case UnaryOp::Asinh:
      return loop<std::asinh>(dtype);
    case UnaryOp::Atan:
      return loop<std::atan>(dtype);
    case UnaryOp::Atanh:
      return loop<std::atanh>(dtype);
    case UnaryOp::Cosh:
      return loop<std::cosh>(dtype);
    case UnaryOp::Sinh:
      return loop<std::sinh>(dtype);
    case UnaryOp::BesselI1e:
      return loop<bessel_i1e>(dtype);
    case UnaryOp::Digamma:
      return loop<digamma>(dtype);
    case UnaryOp::Erf:
      return fast_loop<fast::erf, std::erf>(dtype);
    case UnaryOp::Erfc:
      return loop<std::erfc>(dtype);
    case UnaryOp::ErfInv:
      return loop<erf_inv>(dtype);
    case UnaryOp::Lgamma:
      return loop<lgamma_value>(dtype);
    default:
      return nullptr;
  }
}

Loop math_binary_loop(BinaryOp op, DType dtype) {
  if (!is_float(dtype)) return nullptr;
  switch (op) {
    case BinaryOp::Atan2:
      return binary_float_loop<Function2<std::atan2>>(dtype);
    case BinaryOp::Power:
      return binary_float_loop<Function2<std::pow>>(dtype);
    case BinaryOp::Polygamma:
      return binary_float_loop<Function2<polygamma>>(dtype);
    case BinaryOp::Zeta:
      return binary_float_loop<Function2<zeta>>(dtype);
    default:
      return nullptr;
  }
}

}  // namespace cleave
