#include "cleave/kernels/elementwise.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "cleave/core/error.h"
#include "cleave/kernels/buffer_pool.h"
#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/loop_pairs.h"
#include "cleave/kernels/special.h"

namespace cleave {
namespace {

template <typename T>
Array make(DType dtype, Shape shape, std::vector<T> values) {
  return Array::from_bytes(dtype, std::move(shape), values.data());
}
template <typename T>
std::vector<T> values(const Array& array) {
  const Array packed = array.contiguous();
  return std::vector<T>(packed.data<T>(), packed.data<T>() + packed.num_elements());
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A shard computes what the whole computes: the bits of a result don't depend on its place.
TEST(Elementwise, ResultsDoNotDependOnTheirPlace) {
  std::vector<float> inputs(999);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = 0.013f * static_cast<float>(i) - 3.f;
  const Array whole = make<float>(DType::F32, {999}, inputs);
  for (int op = 0; op <= int(UnaryOp::Lgamma); ++op) {
    if (!unary_loop(UnaryOp(op), DType::F32).loop) continue;
    const Array expected = unary(UnaryOp(op), whole);
    for (int64_t size : {1, 3, 8, 17})
      for (int64_t start : {0, 5, 500, 982})
        EXPECT_TRUE(identical(unary(UnaryOp(op), whole.slice({start}, {size})),
                              expected.slice({start}, {size}).copy()))
            << "op " << op;
  }
}

// Two ops in one loop give the bits of the two alone.
TEST(Elementwise, PairedLoopsRoundAfterEachOp) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Array x[3] = {Array(DType::F32, {301}), Array(DType::F32, {301}), Array(DType::F32, {301})};
  for (Array& array : x)
    for (int64_t i = 0; i < 301; ++i) array.data<float>()[i] = normal(random);
  const BinaryOp ops[] = {BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply, BinaryOp::Divide};
  const std::byte* in[] = {x[0].raw(), x[1].raw(), x[2].raw()};
  for (BinaryOp first : ops)
    for (BinaryOp second : ops)
      for (bool left : {false, true}) {
        const Loop pair = paired_loop(binary_loop(first, DType::F32).loop,
                                      binary_loop(second, DType::F32).loop, left);
        ASSERT_NE(pair, nullptr);
        Array result(DType::F32, {301});
        pair(in, result.raw(), 301);
        const Array inner = binary(first, x[0], x[1]);
        EXPECT_TRUE(
            identical(result, left ? binary(second, inner, x[2]) : binary(second, x[2], inner)));
      }
  EXPECT_EQ(paired_loop(binary_loop(BinaryOp::Add, DType::F32).loop,
                        binary_loop(BinaryOp::Maximum, DType::F32).loop, true),
            nullptr);
}

// Arithmetic on 16-bit floats rounds what float32 gives, once.
TEST(Elementwise, HalvesRoundOnce) {
  std::mt19937 random(4);
  for (DType dtype : {DType::BF16, DType::F16}) {
    Array bits[2] = {Array(DType::U16, {4099}), Array(DType::U16, {4099})};
    for (Array& array : bits)
      for (int64_t i = 0; i < 4099; ++i)
        array.data<uint16_t>()[i] = static_cast<uint16_t>(random());
    const Array a = bitcast_convert(bits[0], dtype, {4099}),
                b = bitcast_convert(bits[1], dtype, {4099});
    const Array wide_a = convert(a, DType::F32), wide_b = convert(b, DType::F32);
    for (BinaryOp op : {BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply, BinaryOp::Divide,
                        BinaryOp::Maximum, BinaryOp::Minimum}) {
      const Array actual = convert(binary(op, a, b), DType::F32);
      const Array expected = convert(convert(binary(op, wide_a, wide_b), dtype), DType::F32);
      for (int64_t i = 0; i < 4099; ++i) {
        const float x = actual.data<float>()[i], y = expected.data<float>()[i];
        ASSERT_TRUE(std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) ||
                    (std::isnan(x) && std::isnan(y)))
            << "op " << int(op) << ": " << x << " and " << y;
      }
    }
  }
}

TEST(Elementwise, IntegersWrapAndDivideAsStableHloSays) {
  const Array a = make<int8_t>(DType::I8, {6}, {127, -128, -128, 7, -7, 5});
  const Array b = make<int8_t>(DType::I8, {6}, {1, -1, 0, 2, 2, 0});
  EXPECT_EQ(values<int8_t>(binary(BinaryOp::Add, a, b)),
            (std::vector<int8_t>{-128, 127, -128, 9, -5, 5}));
  EXPECT_EQ(values<int8_t>(binary(BinaryOp::Divide, a, b)),
            (std::vector<int8_t>{127, -128, -1, 3, -3, -1}));
  EXPECT_EQ(values<int8_t>(binary(BinaryOp::Remainder, a, b)),
            (std::vector<int8_t>{0, 0, -128, 1, -1, 5}));
  const Array base = make<int32_t>(DType::I32, {5}, {-1, -1, 2, 3, 0});
  const Array exponent = make<int32_t>(DType::I32, {5}, {-3, -2, -1, 5, 0});
  EXPECT_EQ(values<int32_t>(binary(BinaryOp::Power, base, exponent)),
            (std::vector<int32_t>{-1, 1, 0, 243, 1}));
}

TEST(Elementwise, ShiftsOfAllBitsGiveZeroOrSign) {
  const Array a = make<int16_t>(DType::I16, {4}, {-8, -8, 8, -8});
  const Array by = make<int16_t>(DType::I16, {4}, {1, 16, 17, -1});
  EXPECT_EQ(values<int16_t>(binary(BinaryOp::ShiftLeft, a, by)),
            (std::vector<int16_t>{-16, 0, 0, 0}));
  EXPECT_EQ(values<int16_t>(binary(BinaryOp::ShiftRightArithmetic, a, by)),
            (std::vector<int16_t>{-4, -1, 0, -1}));
  EXPECT_EQ(values<int16_t>(binary(BinaryOp::ShiftRightLogical, a, by)),
            (std::vector<int16_t>{32764, 0, 0, 0}));
}

TEST(Elementwise, MaximumPropagatesNanAndOrdersZeros) {
  const Array a = make<float>(DType::F32, {4}, {kNaN, 1, -0.f, 0.f});
  const Array b = make<float>(DType::F32, {4}, {1, kNaN, 0.f, -0.f});
  const auto high = values<float>(binary(BinaryOp::Maximum, a, b));
  const auto low = values<float>(binary(BinaryOp::Minimum, a, b));
  EXPECT_TRUE(std::isnan(high[0]) && std::isnan(high[1]) && std::isnan(low[0]) &&
              std::isnan(low[1]));
  EXPECT_FALSE(std::signbit(high[2]) || std::signbit(high[3]));
  EXPECT_TRUE(std::signbit(low[2]) && std::signbit(low[3]));
}

TEST(Elementwise, TotalOrderSortsNanAndZeros) {
  const Array order = make<float>(DType::F32, {7}, {-kNaN, -kInf, -1.f, -0.f, 0.f, kInf, kNaN});
  const Array lower = order.slice({0}, {6}), upper = order.slice({1}, {6});
  EXPECT_EQ(values<uint8_t>(compare(CompareOp::Lt, lower, upper, true)),
            std::vector<uint8_t>(6, 1));
  EXPECT_EQ(values<uint8_t>(compare(CompareOp::Eq, order, order, true)),
            std::vector<uint8_t>(7, 1));
  EXPECT_EQ(values<uint8_t>(compare(CompareOp::Eq, order, order)),
            (std::vector<uint8_t>{0, 1, 1, 1, 1, 1, 0}));
}

// Any view of the operands gives what packed copies give.
RC_GTEST_PROP(Elementwise, StridedViewsAgreeWithCopies, ()) {
  const auto rows = *rc::gen::inRange<int64_t>(1, 9), cols = *rc::gen::inRange<int64_t>(1, 700);
  std::vector<int32_t> data(rows * cols * 2);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int32_t>(i * 2654435761u);
  const Array whole = make<int32_t>(DType::I32, {rows * 2, cols}, data);
  const Array step = whole.slice({1, 0}, {rows, cols}, {2, 1}).transpose({1, 0});
  const Array row = whole.slice({0, 0}, {rows, 1}).reshape({rows}).broadcast({cols, rows}, {1});
  const Array reversed(DType::I32, {cols, rows}, {-1, cols}, cols - 1, whole.buffer());
  for (const Array& a : {step, row, reversed})
    for (const Array& b : {step, row, reversed})
      RC_ASSERT(values<int32_t>(binary(BinaryOp::Subtract, a, b)) ==
                values<int32_t>(binary(BinaryOp::Subtract, a.copy(), b.copy())));
  const Array wide = convert(step, DType::F16);
  RC_ASSERT(values<uint16_t>(wide) == values<uint16_t>(convert(step.copy(), DType::F16)));
}

TEST(Elementwise, HalfPrecisionRoundsOnce) {
  std::mt19937 random(3);
  std::vector<float16> a(3000), b(3000);
  std::uniform_real_distribution<float> uniform(-100, 100);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float16>(uniform(random));
    b[i] = static_cast<float16>(uniform(random));
  }
  const auto quotient = values<float16>(
      binary(BinaryOp::Divide, make(DType::F16, {3000}, a), make(DType::F16, {3000}, b)));
  for (size_t i = 0; i < a.size(); ++i) {
    const auto expected =
        static_cast<float16>(static_cast<double>(a[i]) / static_cast<double>(b[i]));
    EXPECT_EQ(static_cast<float>(quotient[i]), static_cast<float>(expected));
  }
}

TEST(Convert, FloatsToIntegersSaturateAndNanIsZero) {
  const Array x = make<float>(DType::F32, {7}, {kNaN, kInf, -kInf, 3.99f, -3.99f, 300.f, -0.5f});
  EXPECT_EQ(values<int8_t>(convert(x, DType::I8)),
            (std::vector<int8_t>{0, 127, -128, 3, -3, 127, 0}));
  EXPECT_EQ(values<uint8_t>(convert(x, DType::U8)),
            (std::vector<uint8_t>{0, 255, 0, 3, 0, 255, 0}));
  EXPECT_EQ(values<int64_t>(convert(x, DType::I64))[1], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(values<int64_t>(convert(x, DType::I64))[2], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(values<uint8_t>(convert(x, DType::Bool)), (std::vector<uint8_t>{1, 1, 1, 1, 1, 1, 1}));
}

// Rounding a double to bfloat16 directly: the nearest of the two neighbours.
RC_GTEST_PROP(Convert, DoublesRoundToNearestBfloat16, (double value)) {
  RC_PRE(std::isfinite(value) && std::abs(value) < 1e38);
  const auto rounded =
      values<bfloat16>(convert(make<double>(DType::F64, {1}, {value}), DType::BF16))[0];
  bfloat16 next = rounded, previous = rounded;
  next.bits = static_cast<uint16_t>(rounded.bits + 1);
  const double distance = std::abs(static_cast<double>(float(rounded)) - value);
  RC_ASSERT(distance <= std::abs(static_cast<double>(float(next)) - value));
  if (rounded.bits & 0x7fff) {
    previous.bits = static_cast<uint16_t>(rounded.bits - 1);
    RC_ASSERT(distance <= std::abs(static_cast<double>(float(previous)) - value));
  }
}

TEST(Convert, EveryPairOfTypesKeepsSmallNumbers) {
  const std::vector<float> small = {0, 1, 2, 100};
  for (int from = 0; from <= int(DType::C128); ++from) {
    for (int to = 0; to <= int(DType::C128); ++to) {
      const Array x = convert(make<float>(DType::F32, {4}, small), DType(from));
      const auto back = values<float>(convert(convert(x, DType(to)), DType::F32));
      const bool boolean = DType(from) == DType::Bool || DType(to) == DType::Bool;
      EXPECT_EQ(back, boolean ? (std::vector<float>{0, 1, 1, 1}) : small) << from << " " << to;
    }
  }
}

TEST(Elementwise, BitcastSplitsAndJoinsFromTheLowEnd) {
  const Array x = make<uint32_t>(DType::U32, {1}, {0x01020304u});
  const Array bytes = bitcast_convert(x, DType::U8, {1, 4});
  EXPECT_EQ(values<uint8_t>(bytes), (std::vector<uint8_t>{4, 3, 2, 1}));
  EXPECT_EQ(values<uint32_t>(bitcast_convert(bytes, DType::U32, {1})), values<uint32_t>(x));
}

TEST(Elementwise, ReusedMemoryHoldsTheResult) {
  for (DType dtype : {DType::F32, DType::BF16, DType::I32}) {
    const Array a = convert(make<float>(DType::F32, {4000}, std::vector<float>(4000, 3)), dtype);
    const Array b = convert(make<float>(DType::F32, {4000}, std::vector<float>(4000, 4)), dtype);
    const Array product = binary(BinaryOp::Multiply, a, b, &b);
    EXPECT_EQ(product.buffer(), b.buffer());
    EXPECT_EQ(values<float>(convert(product, DType::F32)), std::vector<float>(4000, 12));
    const Array view = Array::scalar<float>(DType::F32, 2).broadcast({5}, {});
    EXPECT_NE(unary(UnaryOp::Exp, view, &view).buffer(), view.buffer());
  }
}

TEST(Elementwise, SelectAndClampTakeScalars) {
  const Array x = make<double>(DType::F64, {3}, {-2, 0.5, 9});
  const Array low = Array::scalar<double>(DType::F64, 0),
              high = Array::scalar<double>(DType::F64, 1);
  EXPECT_EQ(values<double>(clamp(low, x, high)), (std::vector<double>{0, 0.5, 1}));
  const Array pred = Array::scalar<bool>(DType::Bool, true);
  EXPECT_EQ(values<double>(select(pred, x, clamp(low, x, high))), values<double>(x));
}

TEST(Elementwise, ComplexFunctionsAgreeWithTheLibrary) {
  using C = std::complex<double>;
  const std::vector<C> z = {{1, 2}, {-0.5, 0.25}, {0, -1}, {3, 0}, {1e-9, 1e-9}};
  const Array x = make<C>(DType::C128, {5}, z);
  const auto logs = values<C>(unary(UnaryOp::Log, x));
  const auto tans = values<C>(unary(UnaryOp::Tanh, x));
  const auto minus = values<C>(unary(UnaryOp::Expm1, x));
  for (size_t i = 0; i < z.size(); ++i) {
    EXPECT_LT(std::abs(logs[i] - std::log(z[i])), 1e-14);
    EXPECT_LT(std::abs(tans[i] - std::tanh(z[i])), 1e-14);
  }
  EXPECT_LT(std::abs(minus[4] / z[4] - 1.0 - z[4] / 2.0), 1e-15);
  EXPECT_EQ(unary(UnaryOp::Abs, x).dtype(), DType::F64);
}

TEST(Elementwise, SaysWhichTypeHasNoKernel) {
  EXPECT_THROW(unary(UnaryOp::Popcnt, Array::zeros(DType::F32, {1})), UserError);
  EXPECT_THROW(compare(CompareOp::Lt, Array::zeros(DType::C64, {1}), Array::zeros(DType::C64, {1})),
               UserError);
}

// Copies between any two views of one shape, against an index walk.
RC_GTEST_PROP(Copy, AnyViewsAgreeWithAnIndexWalk, ()) {
  const auto a = *rc::gen::inRange<int64_t>(1, 40), b = *rc::gen::inRange<int64_t>(1, 40),
             c = *rc::gen::inRange<int64_t>(1, 4);
  std::vector<int16_t> data(a * b * c * 2);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int16_t>(i);
  const Array base = make<int16_t>(DType::I16, {c, a * 2, b}, data);
  const Array from = base.slice({0, a * 2 - 1, 0}, {c, a, b}, {1, -2, 1}).transpose({2, 0, 1});
  const Array out = Array::zeros(DType::I16, {a, c, b});
  const Array to = out.transpose({2, 1, 0});
  copy_elements(from, to);
  for (int64_t i = 0; i < b; ++i)
    for (int64_t j = 0; j < c; ++j)
      for (int64_t k = 0; k < a; ++k)
        RC_ASSERT(out.data<int16_t>()[(k * c + j) * b + i] ==
                  data[(j * a * 2 + (a * 2 - 1 - 2 * k)) * b + i]);
}

TEST(BufferPool, KeepsBlocksUpToTheLimit) {
  BufferPool pool(200000);
  EXPECT_EQ(BufferPool::size_class(65 * 1024), size_t{80} * 1024);
  std::byte* first = pool.take(100000);
  std::byte* second = pool.take(100000);
  pool.give(first, 100000);
  EXPECT_EQ(pool.take(99000), first);
  pool.give(first, 99000);
  pool.give(second, 100000);  // beyond the limit
  EXPECT_EQ(pool.kept_bytes(), BufferPool::size_class(100000));
}

TEST(Special, KnownValues) {
  const double euler = 0.57721566490153286, pi = 3.14159265358979324;
  EXPECT_NEAR(digamma(1), -euler, 1e-15);
  EXPECT_NEAR(digamma(0.5), -euler - 2 * std::log(2), 1e-14);
  EXPECT_NEAR(digamma(-1.5), digamma(2.5) + pi / std::tan(pi * 2.5), 1e-13);
  EXPECT_TRUE(std::isnan(digamma(-2)));
  EXPECT_NEAR(zeta(2, 1), pi * pi / 6, 1e-15);
  EXPECT_NEAR(zeta(4, 1), std::pow(pi, 4) / 90, 1e-15);
  EXPECT_NEAR(zeta(2, 0.5), pi * pi / 2, 1e-14);
  double head = 0;
  for (int k = 1; k < 40; ++k) head += std::pow(k, -3.0);
  EXPECT_NEAR(zeta(3, 40), zeta(3, 1) - head, 1e-14);
  EXPECT_NEAR(polygamma(1, 1), pi * pi / 6, 1e-14);
  EXPECT_NEAR(polygamma(2, 1), -2 * 1.20205690315959429, 1e-14);
  EXPECT_NEAR(bessel_i1e(1), std::exp(-1.0) * 0.56515910399248503, 1e-15);
  EXPECT_NEAR(bessel_i1e(-40), -std::exp(-40.0) * std::cyl_bessel_i(1.0, 40.0), 1e-14);
  for (double x : {1e-10, 0.1, 0.5, 0.9, 0.999999, -0.3, -0.99})
    EXPECT_NEAR(std::erf(erf_inv(x)) / x, 1, 1e-14) << x;
  EXPECT_EQ(erf_inv(1), std::numeric_limits<double>::infinity());
}

TEST(Elementwise, NextAfterStepsInTheTypeItself) {
  const Array x = make<float16>(DType::F16, {2}, {float16(1), float16(0)});
  const Array to = make<float16>(DType::F16, {2}, {float16(2), float16(-1)});
  EXPECT_EQ(values<uint16_t>(binary(BinaryOp::NextAfter, x, to)),
            (std::vector<uint16_t>{0x3c01, 0x8001}));
}

TEST(Elementwise, ReducePrecisionRoundsAndSaturates) {
  const Array x = make<float>(DType::F32, {5}, {65505.f, 65520.f, 1e-8f, 1.0009765625f, kNaN});
  const auto reduced = values<float>(reduce_precision(x, 5, 10));
  EXPECT_EQ(reduced[0], 65504.f);
  EXPECT_EQ(reduced[1], kInf);
  EXPECT_EQ(reduced[2], 0.f);
  EXPECT_EQ(reduced[3], 1.0009765625f);
  EXPECT_TRUE(std::isnan(reduced[4]));
}

}  // namespace
}  // namespace cleave
