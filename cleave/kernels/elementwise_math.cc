#include <cmath>

#include "cleave/kernels/fast_math_rare.h"
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

// `fast` for float operands, `exact` for double ones.
template <float (*f)(float)>
struct FloatFunction {
  static float apply(float a) { return f(a); }
};
template <float (*f)(float, float)>
struct FloatFunction2 {
  static float apply(float a, float b) { return f(a, b); }
};
template <float (*fast)(float), double (*exact)(double)>
Loop float_loop(DType dtype) {
  return dtype == DType::F64 ? &unary_loop_of<Function<exact>, double>
                             : &unary_loop_of<FloatFunction<fast>, float>;
}
template <float (*fast)(float, float), double (*exact)(double, double)>
Loop float_loop2(DType dtype) {
  return dtype == DType::F64 ? &binary_loop_of<Function2<exact>, double>
                             : &binary_loop_of<FloatFunction2<fast>, float>;
}
template <double (*f)(double)>
Loop loop(DType dtype) {
  return unary_float_loop<Function<f>>(dtype);
}

// Angles that are too large for the quick reduction go to the library one by one.
template <float (*fast)(float), double (*exact)(double)>
void float_angle_loop(const std::byte* const* in, std::byte* out, int64_t n) {
  constexpr int64_t kBlock = 512;
  const auto is_huge = [](float x) {
    return std::abs(x) > fast::kMaxAngle && std::abs(x) < fast::kInfinityFloat;
  };
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    const std::byte* block = in[0] + begin * sizeof(float);
    const auto* angles = reinterpret_cast<const float*>(block);
    auto* results = reinterpret_cast<float*>(out) + begin;
    int huge = 0;
    for (int64_t i = 0; i < count; ++i) huge |= is_huge(angles[i]);
    if (!huge)
      unary_loop_of<FloatFunction<fast>, float>(&block, out + begin * sizeof(float), count);
    else
      for (int64_t i = 0; i < count; ++i)
        results[i] = is_huge(angles[i]) ? static_cast<float>(exact(angles[i])) : fast(angles[i]);
  }
}
template <float (*fast)(float), double (*exact)(double)>
Loop angle_loop(DType dtype) {
  return dtype == DType::F64 ? &unary_loop_of<Function<exact>, double>
                             : &float_angle_loop<fast, exact>;
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
      return float_loop<fast::cbrt, std::cbrt>(dtype);
    case UnaryOp::Cos:
      return angle_loop<fast::cos, std::cos>(dtype);
    case UnaryOp::Sin:
      return angle_loop<fast::sin, std::sin>(dtype);
    case UnaryOp::Exp:
      return float_loop<fast::exp, std::exp>(dtype);
    case UnaryOp::Expm1:
      return float_loop<fast::expm1, std::expm1>(dtype);
    case UnaryOp::Log:
      return float_loop<fast::log, std::log>(dtype);
    case UnaryOp::Log1p:
      return float_loop<fast::log1p, std::log1p>(dtype);
    case UnaryOp::Logistic:
      return float_loop<fast::logistic, logistic>(dtype);
    case UnaryOp::Tanh:
      return float_loop<fast::tanh, std::tanh>(dtype);
    case UnaryOp::Rsqrt:
      return unary_float_loop<Rsqrt>(dtype);
    case UnaryOp::Sqrt:
      return unary_float_loop<Sqrt>(dtype);
    case UnaryOp::Tan:
      return angle_loop<fast::tan, std::tan>(dtype);
    case UnaryOp::Acos:
      return float_loop<fast::acos, std::acos>(dtype);
    case UnaryOp::Acosh:
      return float_loop<fast::acosh, std::acosh>(dtype);
    case UnaryOp::Asin:
      return float_loop<fast::asin, std::asin>(dtype);
    case UnaryOp::Asinh:
      return float_loop<fast::asinh, std::asinh>(dtype);
    case UnaryOp::Atan:
      return float_loop<fast::atan, std::atan>(dtype);
    case UnaryOp::Atanh:
      return float_loop<fast::atanh, std::atanh>(dtype);
    case UnaryOp::Cosh:
      return float_loop<fast::cosh, std::cosh>(dtype);
    case UnaryOp::Sinh:
      return float_loop<fast::sinh, std::sinh>(dtype);
    case UnaryOp::BesselI1e:
      return loop<bessel_i1e>(dtype);
    case UnaryOp::Digamma:
      return loop<digamma>(dtype);
    case UnaryOp::Erf:
      return float_loop<fast::erf, std::erf>(dtype);
    case UnaryOp::Erfc:
      return float_loop<fast::erfc, std::erfc>(dtype);
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
      return float_loop2<fast::atan2, std::atan2>(dtype);
    case BinaryOp::Power:
      return float_loop2<fast::pow, std::pow>(dtype);
    case BinaryOp::Polygamma:
      return binary_float_loop<Function2<polygamma>>(dtype);
    case BinaryOp::Zeta:
      return binary_float_loop<Function2<zeta>>(dtype);
    default:
      return nullptr;
  }
}

}  // namespace cleave
