#include <cmath>
#include <limits>

#include "cleave/kernels/loop_families.h"
#include "cleave/kernels/loop_templates.h"

namespace cleave {
namespace {

using Complex = std::complex<double>;

// A function of complex doubles as loops.
template <Complex (*f)(const Complex&)>
struct Function {
  template <typename T>
  static T apply(T a) {
    const Complex z = f(Complex(a.real(), a.imag()));
    using Part = typename T::value_type;
    return T(static_cast<Part>(z.real()), static_cast<Part>(z.imag()));
  }
};
template <Complex (*f)(const Complex&, const Complex&)>
struct Function2 {
  template <typename T>
  static T apply(T a, T b) {
    const Complex z = f(Complex(a.real(), a.imag()), Complex(b.real(), b.imag()));
    using Part = typename T::value_type;
    return T(static_cast<Part>(z.real()), static_cast<Part>(z.imag()));
  }
};
template <Complex (*f)(const Complex&)>
Loop loop(DType dtype) {
  return unary_complex_loop<Function<f>>(dtype);
}
template <Complex (*f)(const Complex&, const Complex&)>
Loop loop2(DType dtype) {
  return binary_complex_loop<Function2<f>>(dtype);
}

struct Abs {
  template <typename T>
  static typename T::value_type apply(T a) {
    return static_cast<typename T::value_type>(
        std::hypot(static_cast<double>(a.real()), static_cast<double>(a.imag())));
  }
};
struct Real {
  template <typename T>
  static typename T::value_type apply(T a) {
    return a.real();
  }
};
struct Imag {
  template <typename T>
  static typename T::value_type apply(T a) {
    return a.imag();
  }
};
struct Negate {
  template <typename T>
  static T apply(T a) {
    return -a;
  }
};
struct Conj {
  template <typename T>
  static T apply(T a) {
    return T(a.real(), -a.imag());
  }
};
struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return T(a.real() + b.real(), a.imag() + b.imag());
  }
};
struct Subtract {
  template <typename T>
  static T apply(T a, T b) {
    return T(a.real() - b.real(), a.imag() - b.imag());
  }
};
struct Multiply {
  template <typename T>
  static T apply(T a, T b) {
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  }
};
struct Square {
  template <typename T>
  static T apply(T a) {
    return Multiply::apply(a, a);
  }
};
// By the real part, then the imaginary one.
struct Maximum {
  template <typename T>
  static T apply(T a, T b) {
    return (a.real() == b.real() ? a.imag() > b.imag() : a.real() > b.real()) ? a : b;
  }
};
struct Minimum {
  template <typename T>
  static T apply(T a, T b) {
    return (a.real() == b.real() ? a.imag() < b.imag() : a.real() < b.real()) ? a : b;
  }
};
// Of two reals.
struct MakeComplex {
  template <typename T>
  static std::complex<T> apply(T a, T b) {
    return {a, b};
  }
};

Complex divide(const Complex& a, const Complex& b) { return a / b; }
Complex power(const Complex& a, const Complex& b) {
  if (b == Complex(0)) return 1;
  if (a == Complex(0)) return b.real() > 0 ? Complex(0) : std::pow(a, b);
  return std::exp(b * std::log(a));
}
Complex atan2(const Complex& y, const Complex& x) {
  const Complex i(0, 1);
  return -i * std::log((x + i * y) / std::sqrt(x * x + y * y));
}
Complex cbrt(const Complex& z) {
  const double angle = std::arg(z) / 3;
  const double radius = std::cbrt(std::abs(z));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}
Complex expm1(const Complex& z) {
  const double half_sine = std::sin(z.imag() / 2);
  return {std::expm1(z.real()) * std::cos(z.imag()) - 2 * half_sine * half_sine,
          z.imag() == 0 ? z.imag() : std::exp(z.real()) * std::sin(z.imag())};
}
Complex log1p(const Complex& z) {
  const double x = z.real(), y = z.imag();
  const double angle = std::atan2(y, 1 + x);
  if (std::abs(x) + std::abs(y) > 0.5) return {std::log(std::hypot(1 + x, y)), angle};
  return {0.5 * std::log1p(x * (2 + x) + y * y), angle};
}
Complex logistic(const Complex& z) { return 1.0 / (1.0 + std::exp(-z)); }
Complex rsqrt(const Complex& z) { return 1.0 / std::sqrt(z); }
Complex sign(const Complex& z) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (std::isnan(z.real()) || std::isnan(z.imag())) return {kNaN, kNaN};
  if (z == Complex(0)) return 0;
  return z / std::abs(z);
}

Complex exp(const Complex& z) { return std::exp(z); }
Complex log(const Complex& z) { return std::log(z); }
Complex sqrt(const Complex& z) { return std::sqrt(z); }
Complex sin(const Complex& z) { return std::sin(z); }
Complex cos(const Complex& z) { return std::cos(z); }
Complex tan(const Complex& z) { return std::tan(z); }
Complex sinh(const Complex& z) { return std::sinh(z); }
Complex cosh(const Complex& z) { return std::cosh(z); }
Complex tanh(const Complex& z) { return std::tanh(z); }
Complex asin(const Complex& z) { return std::asin(z); }
Complex acos(const Complex& z) { return std::acos(z); }
Complex atan(const Complex& z) { return std::atan(z); }
Complex asinh(const Complex& z) { return std::asinh(z); }
Complex acosh(const Complex& z) { return std::acosh(z); }
Complex atanh(const Complex& z) { return std::atanh(z); }

}  // namespace

Loop complex_unary_loop(UnaryOp op, DType dtype) {
  if (!is_complex(dtype)) return nullptr;
  switch (op) {
    case UnaryOp::Abs:
      return unary_complex_loop<Abs>(dtype);
    case UnaryOp::Real:
      return unary_complex_loop<Real>(dtype);
    case UnaryOp::Imag:
      return unary_complex_loop<Imag>(dtype);
    case UnaryOp::Negate:
      return unary_complex_loop<Negate>(dtype);
    case UnaryOp::Conj:
      return unary_complex_loop<Conj>(dtype);
    case UnaryOp::Square:
      return unary_complex_loop<Square>(dtype);
    case UnaryOp::Sign:
      return loop<sign>(dtype);
    case UnaryOp::Cbrt:
      return loop<cbrt>(dtype);
    case UnaryOp::Exp:
      return loop<exp>(dtype);
    case UnaryOp::Expm1:
      return loop<expm1>(dtype);
    case UnaryOp::Log:
      return loop<log>(dtype);
    case UnaryOp::Log1p:
      return loop<log1p>(dtype);
    case UnaryOp::Logistic:
      return loop<logistic>(dtype);
    case UnaryOp::Rsqrt:
      return loop<rsqrt>(dtype);
    case UnaryOp::Sqrt:
      return loop<sqrt>(dtype);
    case UnaryOp::Sin:
      return loop<sin>(dtype);
    case UnaryOp::Cos:
      return loop<cos>(dtype);
    case UnaryOp::Tan:
      return loop<tan>(dtype);
    case UnaryOp::Tanh:
      return loop<tanh>(dtype);
    case UnaryOp::Sinh:
      return loop<sinh>(dtype);
    case UnaryOp::Cosh:
      return loop<cosh>(dtype);
    case UnaryOp::Asin:
      return loop<asin>(dtype);
    case UnaryOp::Acos:
      return loop<acos>(dtype);
    case UnaryOp::Atan:
      return loop<atan>(dtype);
    case UnaryOp::Asinh:
      return loop<asinh>(dtype);
    case UnaryOp::Acosh:
      return loop<acosh>(dtype);
    case UnaryOp::Atanh:
      return loop<atanh>(dtype);
    default:
      return nullptr;
  }
}

Loop complex_binary_loop(BinaryOp op, DType dtype) {
  if (op == BinaryOp::Complex)
    return is_float(dtype) ? binary_float_loop<MakeComplex>(dtype) : nullptr;
  if (!is_complex(dtype)) return nullptr;
  switch (op) {
    case BinaryOp::Add:
      return binary_complex_loop<Add>(dtype);
    case BinaryOp::Subtract:
      return binary_complex_loop<Subtract>(dtype);
    case BinaryOp::Multiply:
      return binary_complex_loop<Multiply>(dtype);
    case BinaryOp::Divide:
      return loop2<divide>(dtype);
    case BinaryOp::Maximum:
      return binary_complex_loop<Maximum>(dtype);
    case BinaryOp::Minimum:
      return binary_complex_loop<Minimum>(dtype);
    case BinaryOp::Power:
      return loop2<power>(dtype);
    case BinaryOp::Atan2:
      return loop2<atan2>(dtype);
    default:
      return nullptr;
  }
}

}  // namespace cleave
