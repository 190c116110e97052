// Functions of floats against the standard library's in double precision, over all floats: every
// exponent and sign, infinities, NaNs, denormals and both zeros.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "cleave/kernels/elementwise.h"

namespace cleave {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

Array floats(const std::vector<float>& values) {
  return Array::from_bytes(DType::F32, {static_cast<int64_t>(values.size())}, values.data());
}

const std::vector<float> kSpecial = {0.f,  -0.f, 1.f,    -1.f,    0.5f,   -0.5f,   2.f,   -2.f,
                                     3.f,  -3.f, 1e-42f, -1e-42f, 1e-30f, -1e-30f, kInf,  -kInf,
                                     kNaN, kMax, -kMax,  1e10f,   -1e10f, 2.5f,    -2.5f, 1e5f};

// In units of the last place; a NaN, a zero's sign or an infinity that is wrong is as many as can
// be.
double error_in_ulps(float actual, double expected) {
  const auto near = static_cast<float>(expected);
  if (std::bit_cast<uint32_t>(actual) == std::bit_cast<uint32_t>(near)) return 0;
  if (std::isnan(actual) && std::isnan(near)) return 0;
  if (std::isnan(actual) || std::isnan(near) || std::signbit(actual) != std::signbit(near))
    return kInf;
  const double from = std::isinf(actual) ? std::copysign(0x1p128, actual) : actual;
  const double to =
      std::isinf(near) ? std::copysign(std::min(std::abs(expected), 0x1p128), near) : expected;
  const auto magnitude = static_cast<float>(std::min(std::abs(to), double(kMax)));
  const double ulp = magnitude - static_cast<double>(std::nextafter(magnitude, -1.f));
  return std::abs(from - to) / std::max(ulp, 0x1p-149);
}

struct Function {
  const char* name;
  UnaryOp op;
  double (*f)(double);
  double ulps;
};
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double rsqrt(double x) { return 1 / std::sqrt(x); }

TEST(Functions, OfAllFloats) {
  const Function functions[] = {
      {"exp", UnaryOp::Exp, std::exp, 1.1},     {"expm1", UnaryOp::Expm1, std::expm1, 2},
      {"log", UnaryOp::Log, std::log, 1},       {"log1p", UnaryOp::Log1p, std::log1p, 1.5},
      {"tanh", UnaryOp::Tanh, std::tanh, 2.5},  {"logistic", UnaryOp::Logistic, logistic, 2.5},
      {"sqrt", UnaryOp::Sqrt, std::sqrt, 0.51}, {"rsqrt", UnaryOp::Rsqrt, rsqrt, 1.5},
      {"sin", UnaryOp::Sin, std::sin, 1.5},     {"cos", UnaryOp::Cos, std::cos, 1.5},
      {"tan", UnaryOp::Tan, std::tan, 3.5},     {"cbrt", UnaryOp::Cbrt, std::cbrt, 1},
      {"asin", UnaryOp::Asin, std::asin, 2.5},  {"acos", UnaryOp::Acos, std::acos, 2},
      {"atan", UnaryOp::Atan, std::atan, 2},    {"sinh", UnaryOp::Sinh, std::sinh, 3},
      {"cosh", UnaryOp::Cosh, std::cosh, 2},    {"asinh", UnaryOp::Asinh, std::asinh, 3},
      {"acosh", UnaryOp::Acosh, std::acosh, 3}, {"atanh", UnaryOp::Atanh, std::atanh, 3},
      {"erf", UnaryOp::Erf, std::erf, 1.5},     {"erfc", UnaryOp::Erfc, std::erfc, 4},
  };
  std::vector<float> inputs = kSpecial;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 16411)
    inputs.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int i = -150000; i < 150000; ++i) inputs.push_back(static_cast<float>(i) * 1.0001e-4f);
  // Near the multiples of pi/2.
  for (int i = 0; i < 60000; ++i) inputs.push_back(static_cast<float>(i * 1.5707963267948966));
  const Array x = floats(inputs);
  for (const Function& function : functions) {
    const Array y = unary(function.op, x);
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double error = error_in_ulps(y.data<float>()[i], function.f(inputs[i]));
      if (error > worst) worst = error, at = inputs[i];
    }
    EXPECT_LE(worst, function.ulps) << function.name << " of " << at;
  }
}

template <typename F>
double worst_of_pairs(BinaryOp op, F f, const std::vector<float>& a, const std::vector<float>& b,
                      std::pair<float, float>& at) {
  const Array result = binary(op, floats(a), floats(b));
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = error_in_ulps(result.data<float>()[i], f(double(a[i]), double(b[i])));
    if (error > worst) worst = error, at = {a[i], b[i]};
  }
  return worst;
}

TEST(Functions, OfTwoFloats) {
  std::vector<float> a, b;
  for (float x : kSpecial)
    for (float y : kSpecial) a.push_back(x), b.push_back(y);
  uint32_t seed = 1;
  const auto next = [&] { return seed = seed * 1664525u + 1013904223u; };
  const auto uniform = [&] { return static_cast<float>(next() >> 8) * 0x1p-24f; };
  for (int i = 0; i < 200000; ++i) {
    a.push_back(std::bit_cast<float>(next()));
    b.push_back(i % 3 ? 200 * uniform() - 100 : std::bit_cast<float>(next()));
    a.push_back(10 * uniform() - (i % 2 ? 5.f : 0.f));
    b.push_back(i % 4 ? 40 * uniform() - 20 : std::floor(20 * uniform() - 10));
  }
  std::pair<float, float> at;
  const auto pow = [](double x, double y) { return std::pow(x, y); };
  const auto atan2 = [](double y, double x) { return std::atan2(y, x); };
  EXPECT_LE(worst_of_pairs(BinaryOp::Power, pow, a, b, at), 2) << at.first << " " << at.second;
  EXPECT_LE(worst_of_pairs(BinaryOp::Atan2, atan2, a, b, at), 2) << at.first << " " << at.second;
}

// One angle that is out of reach does not change its neighbours.
TEST(Functions, HugeAnglesAmongSmallOnes) {
  std::vector<float> inputs(1000);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = 0.37f * static_cast<float>(i) - 100;
  for (UnaryOp op : {UnaryOp::Sin, UnaryOp::Cos, UnaryOp::Tan}) {
    const Array before = unary(op, floats(inputs));
    std::vector<float> with = inputs;
    with[700] = 1e30f;
    const Array after = unary(op, floats(with));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (i != 700) {
        ASSERT_EQ(before.data<float>()[i], after.data<float>()[i]);
      }
  }
  EXPECT_EQ(unary(UnaryOp::Sin, floats({1e30f})).data<float>()[0], float(std::sin(double(1e30f))));
}

}  // namespace
}  // namespace cleave
