// Sums of many elements against sums in double: their error does not grow with their length.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "cleave/kernels/combine.h"
#include "cleave/kernels/dot.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/normalize.h"
#include "cleave/kernels/reduce.h"
#include "cleave/kernels/reduce_window.h"
#include "cleave/kernels/running_fold.h"

namespace cleave {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kLongest = 1'000'000;
#else
constexpr int64_t kLongest = 100'000'000;
#endif

constexpr double kError = 2.5e-7;  // four units in the last place of a float

Array filled(const Shape& shape, float value) {
  Array scalar(DType::F32, {});
  *scalar.data<float>() = value;
  return scalar.broadcast(shape, {}).copy();
}

Array random_numbers(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  Array array(DType::F32, shape);
  for (int64_t i = 0; i < array.num_elements(); ++i)
    array.data<float>()[i] = static_cast<float>(random() % 1000) * 0.001f + 0.05f;
  return array;
}

double exact_sum(const Array& array) {
  const Array packed = array.contiguous();
  long double sum = 0;
  for (int64_t i = 0; i < packed.num_elements(); ++i) sum += packed.data<float>()[i];
  return static_cast<double>(sum);
}

Array sum(const Array& array, const std::vector<int64_t>& dims) {
  return reduce(array, dims, Reducer::Sum, reduce_identity(Reducer::Sum, array.dtype()));
}

double relative(double value, double expected) { return std::abs(value - expected) / expected; }

double error_of(const Array& array, const std::vector<int64_t>& dims) {
  return relative(sum(array, dims).data<float>()[0], exact_sum(array));
}

TEST(SumAccuracy, OfEqualNumbersOfEveryLength) {
  for (int64_t n = 1000; n <= std::min<int64_t>(kLongest, 4'000'000); n *= 10)
    for (const int64_t more : {0, 1, 37})
      EXPECT_LT(error_of(filled({n + more}, 0.1f), {0}), kError) << n + more;
  // The longest without its memory.
  Array scalar(DType::F32, {});
  *scalar.data<float>() = 0.1f;
  const Array longest = scalar.broadcast({kLongest}, {});
  EXPECT_LT(relative(sum(longest, {0}).data<float>()[0],
                     static_cast<double>(0.1f) * static_cast<double>(kLongest)),
            kError);
}

TEST(SumAccuracy, OfRandomNumbers) {
  for (int64_t n : {1000, 10'000, 100'000, 1'000'000})
    EXPECT_LT(error_of(random_numbers({n}, 1), {0}), kError) << n;
}

TEST(SumAccuracy, OfShortRows) {
  for (int64_t n : {7, 15, 16, 17, 63, 64, 65, 255, 256, 511, 512, 513, 1024, 1025}) {
    const Array rows = filled({9, n}, 0.1f);
    const Array sums = sum(rows, {1});
    for (int64_t r = 0; r < 9; ++r)
      EXPECT_LT(relative(sums.data<float>()[r], static_cast<double>(0.1f) * static_cast<double>(n)),
                kError * 2)
          << n;
  }
}

TEST(SumAccuracy, OfStridedOperands) {
  const Array every_third = random_numbers({400'000, 3}, 2).slice({0, 1}, {400'000, 1});
  EXPECT_LT(error_of(every_third, {0, 1}), kError);
  const Array back = random_numbers({300, 1000}, 3).transpose({1, 0});
  EXPECT_LT(error_of(back, {0, 1}), kError);
  // Rows that do not continue each other: the sums of the rows are many, too.
  const Array parts = random_numbers({100'000, 5}, 4).slice({0, 0}, {100'000, 3});
  EXPECT_LT(error_of(parts, {0, 1}), kError);
  const Array blocks = random_numbers({60, 70, 80}, 5).slice({0, 0, 0}, {60, 35, 79}, {1, 2, 1});
  EXPECT_LT(error_of(blocks, {0, 1, 2}), kError);
}

TEST(SumAccuracy, OfBroadcastOperands) {
  const Array row = random_numbers({40}, 6);
  const Array rows = row.broadcast({50'000, 40}, {1}), columns = row.broadcast({40, 50'000}, {0});
  EXPECT_LT(error_of(rows, {0, 1}), kError);
  EXPECT_LT(error_of(columns, {0, 1}), kError);
}

TEST(SumAccuracy, OfColumns) {
  for (const int64_t width : {1, 3, 16, 600}) {
    const int64_t height = 1'200'000 / width;
    const Array matrix = random_numbers({height, width}, 7);
    const Array sums = sum(matrix, {0});
    for (int64_t c = 0; c < width; c += std::max<int64_t>(1, width / 5)) {
      const Array column = matrix.slice({0, c}, {height, 1});
      EXPECT_LT(relative(sums.data<float>()[c], exact_sum(column)), kError) << width << " " << c;
    }
  }
  // Over the first and the last dimension, and over the middle one.
  const Array cube = random_numbers({100, 30, 120}, 8);
  const Array outer = sum(cube, {0, 2}), middle = sum(cube, {1});
  for (int64_t i : {0, 29}) {
    const Array part = cube.slice({0, i, 0}, {100, 1, 120});
    EXPECT_LT(relative(outer.data<float>()[i], exact_sum(part)), kError);
  }
  const Array part = cube.slice({99, 0, 119}, {1, 30, 1});
  EXPECT_LT(relative(middle.data<float>()[99 * 120 + 119], exact_sum(part)), kError);
}

TEST(SumAccuracy, OfHalfPrecisionIsThatOfFloat32RoundedOnce) {
  for (const DType dtype : {DType::F16, DType::BF16}) {
    const Array narrow = convert(filled({40'000}, 0.5f), dtype);
    EXPECT_EQ(convert(sum(narrow, {0}), DType::F32).data<float>()[0],
              convert(convert(filled({1}, 20'000.0f), dtype), DType::F32).data<float>()[0]);
    const Array columns = convert(filled({40'000, 2}, 0.5f), dtype);
    EXPECT_EQ(convert(sum(columns, {0}), DType::F32).data<float>()[1],
              convert(convert(filled({1}, 20'000.0f), dtype), DType::F32).data<float>()[0]);
  }
}

TEST(SumAccuracy, OfComplexNumbers) {
  constexpr int64_t kRows = 250'000;
  Array numbers(DType::C64, {kRows, 4});
  for (int64_t i = 0; i < numbers.num_elements(); ++i)
    numbers.data<std::complex<float>>()[i] = {0.1f, -0.3f};
  const auto check = [](std::complex<float> value, double n) {
    EXPECT_LT(relative(value.real(), static_cast<double>(0.1f) * n), kError);
    EXPECT_LT(relative(-value.imag(), static_cast<double>(0.3f) * n), kError);
  };
  check(sum(numbers, {0, 1}).data<std::complex<float>>()[0], 4 * kRows);
  const Array columns = sum(numbers, {0});
  for (int64_t c = 0; c < 4; ++c) check(columns.data<std::complex<float>>()[c], kRows);
  const Array strided = numbers.slice({0, 1}, {kRows, 1});
  check(sum(strided, {0, 1}).data<std::complex<float>>()[0], kRows);
}

TEST(SumAccuracy, OfDoubles) {
  constexpr int64_t kTerms = 1'000'000;
  Array numbers(DType::F64, {kTerms});
  for (int64_t i = 0; i < kTerms; ++i) numbers.data<double>()[i] = 0.1;
  EXPECT_NEAR(sum(numbers, {0}).data<double>()[0], 1e5, 3e-11);
  const Array columns = numbers.reshape({kTerms / 4, 4});
  EXPECT_NEAR(sum(columns, {0}).data<double>()[3], 2.5e4, 1e-11);
}

TEST(SumAccuracy, OfRunningFoldsAndTheirParts) {
  constexpr int64_t kRows = 100'000, kColumns = 5;
  const Array matrix = random_numbers({kRows, kColumns}, 9);
  const Loop add = binary_loop(BinaryOp::Add, DType::F32).loop;
  const RunningFold fold(DType::F32, Reducer::Sum, kColumns, add);
  const float zero = 0;
  std::vector<double> first(fold.bytes() / 8 + 1), second(first.size());
  auto* a = reinterpret_cast<std::byte*>(first.data());
  auto* b = reinterpret_cast<std::byte*>(second.data());
  fold.start(a, reinterpret_cast<const std::byte*>(&zero));
  fold.start(b, reinterpret_cast<const std::byte*>(&zero));
  const int64_t blocks[] = {1, 2, 3, 7, 21, 64};
  for (int64_t row = 0, k = 0; row < kRows; ++k) {
    const int64_t rows = std::min(blocks[k % 6], kRows - row);
    fold.add_rows(k % 2 ? a : b, matrix.raw() + row * kColumns * 4, rows);
    row += rows;
  }
  fold.merge(a, b);
  float sums[kColumns];
  fold.finish(a, reinterpret_cast<std::byte*>(sums));
  for (int64_t c = 0; c < kColumns; ++c) {
    const Array column = matrix.slice({0, c}, {kRows, 1});
    EXPECT_LT(relative(sums[c], exact_sum(column)), kError);
  }
}

TEST(SumAccuracy, AcrossManyDevices) {
  const Array part = filled({3}, 0.1f);
  std::vector<const std::byte*> parts(10'000, part.raw());
  Array total(DType::F32, {3});
  combine_parts(ReduceOp::Sum, DType::F32, parts, total.raw(), 0, 3);
  EXPECT_LT(relative(total.data<float>()[2], 10'000 * static_cast<double>(0.1f)), kError);
  combine_parts(ReduceOp::Avg, DType::F32, parts, total.raw(), 0, 3);
  EXPECT_LT(relative(total.data<float>()[0], static_cast<double>(0.1f)), kError);
}

TEST(SumAccuracy, OfWindowsAndRunningSums) {
  constexpr int64_t kSize = 20'000;
  const Array ones = filled({kSize}, 0.1f), zero = reduce_identity(Reducer::Sum, DType::F32);
  Window all;
  all.dims.resize(1);
  all.dims[0] = {.size = kSize, .low = kSize - 1};
  const Array running = reduce_window(ones, all, Reducer::Sum, zero);
  for (int64_t i : {int64_t{999}, kSize - 1})
    EXPECT_LT(
        relative(running.data<float>()[i], static_cast<double>(0.1f) * static_cast<double>(i + 1)),
        2 * kError);
  Window wide;
  wide.dims.resize(1);
  wide.dims[0] = {.size = 15'000, .stride = 1000};
  const Array sums = reduce_window(ones, wide, Reducer::Sum, zero);
  EXPECT_LT(relative(sums.data<float>()[3], 15'000 * static_cast<double>(0.1f)), kError);
}

TEST(SumAccuracy, OfProductsOfLongVectors) {
  constexpr int64_t kSize = 1'000'000;
  const Array a = filled({kSize}, 0.1f);
  DotDims dims;
  dims.lhs_contract = dims.rhs_contract = {0};
  const Array product = dot_general(a, a, dims, DType::F32);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(0.1f) * kSize;
  EXPECT_LT(relative(product.data<float>()[0], exact), 20 * kError);
  // ones times a matrix: the gradient of a bias as some write it.
  const Array matrix = filled({kSize / 4, 4}, 0.1f), ones = filled({kSize / 4}, 1.0f);
  const Array columns = dot_general(ones, matrix, dims, DType::F32);
  EXPECT_LT(relative(columns.data<float>()[1], static_cast<double>(0.1f) * kSize / 4), 20 * kError);
  // The gradient of a weight, both ways round.
  for (const int64_t k : {3000, 60'000, 250'000}) {
    const Array x = filled({k, 2}, 0.1f), y = filled({k, 4}, 0.1f);
    const double sum =
        static_cast<double>(0.1f) * static_cast<double>(0.1f) * static_cast<double>(k);
    const Array weight = dot_general(x, y, dims, DType::F32);
    EXPECT_LT(relative(weight.data<float>()[7], sum), 80 * kError) << k;
    DotDims last;
    last.lhs_contract = last.rhs_contract = {1};
    const Array turned =
        dot_general(x.transpose({1, 0}).copy(), y.transpose({1, 0}).copy(), last, DType::F32);
    EXPECT_LT(relative(turned.data<float>()[0], sum), 80 * kError) << k;
  }
}

TEST(SumAccuracy, OfSoftmaxAndLayerNormOfLongRows) {
  constexpr int64_t kSize = 400'000;
  const Array x = random_numbers({2, kSize}, 10);
  const float* in = x.data<float>();
  const Array soft = softmax(x), scale = filled({kSize}, 2.0f), shift = filled({kSize}, 1.0f);
  const Array norm = layer_norm(x, nullptr, nullptr, 1e-6);
  const Array affine = layer_norm(x, &scale, &shift, 1e-6);
  for (int64_t row : {0, 1}) {
    long double sum = 0, powers = 0, squares = 0;
    for (int64_t i = 0; i < kSize; ++i) sum += in[row * kSize + i];
    const double mean = static_cast<double>(sum / kSize);
    for (int64_t i = 0; i < kSize; ++i) {
      const double value = in[row * kSize + i];
      powers += std::exp(value);
      squares += (value - mean) * (value - mean);
    }
    const double deviation = std::sqrt(static_cast<double>(squares / kSize) + 1e-6);
    for (int64_t i = 0; i < kSize; i += kSize / 7) {
      const int64_t at = row * kSize + i;
      const double expected = (in[at] - mean) / deviation;
      EXPECT_LT(relative(soft.data<float>()[at], std::exp(in[at]) / static_cast<double>(powers)),
                2 * kError);
      EXPECT_NEAR(norm.data<float>()[at], expected, 2e-6);
      EXPECT_NEAR(affine.data<float>()[at], 2 * expected + 1, 4e-6);
    }
  }
}

TEST(SumAccuracy, SignsOfZeroInfinitiesAndNaN) {
  for (const int64_t n : {0, 1, 5, 100, 5000}) {
    const Array zeros = filled({n}, -0.0f);
    EXPECT_FALSE(std::signbit(sum(zeros, {0}).data<float>()[0])) << n;
    const Array columns = filled({n, 2}, -0.0f);
    EXPECT_FALSE(std::signbit(sum(columns, {0}).data<float>()[1])) << n;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::F32, DType::F64}) {
    for (const Shape& shape : {Shape{5000, 1}, Shape{5000, 3}}) {
      Array numbers = convert(filled(shape, 1.0f), DType::F64).copy();
      numbers.data<double>()[0] = kInfinity;
      const auto first = [&] {
        return convert(sum(convert(numbers, dtype), {0}), DType::F64).data<double>()[0];
      };
      EXPECT_EQ(first(), kInfinity);
      numbers.data<double>()[shape[1] * 4999] = -kInfinity;
      EXPECT_TRUE(std::isnan(first()));
    }
  }
}

}  // namespace
}  // namespace cleave
