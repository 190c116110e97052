#include "cleave/kernels/fft.h"

#include <gtest/gtest.h>

#include <numbers>

#include "cleave/kernels/batch_norm.h"
#include "test_arrays.h"

namespace cleave {
namespace {

using namespace cleave::testing;

// The sum that defines the transform, over the last `count` dimensions.
std::vector<Number> reference(const Array& x, size_t count, bool inverse) {
  const size_t first = x.rank() - count;
  const Shape lines(x.shape().begin() + static_cast<int64_t>(first), x.shape().end());
  std::vector<Number> values;
  for_each_index(x.shape(), [&](const Shape& k) {
    Number sum = 0;
    for_each_index(lines, [&](const Shape& j) {
      Shape at = k;
      double turns = 0;
      for (size_t d = 0; d < count; ++d) {
        at[first + d] = j[d];
        turns += static_cast<double>(k[first + d] * j[d]) / static_cast<double>(lines[d]);
      }
      const double angle = (inverse ? 2 : -2) * std::numbers::pi * turns;
      sum += element(x, offset_of(x, at)) * std::polar(1.0, angle);
    });
    values.push_back(inverse ? sum / static_cast<double>(num_elements(lines)) : sum);
  });
  return values;
}

void expect_near(const std::vector<Number>& a, const std::vector<Number>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_LT(std::abs(a[i] - b[i]), tolerance) << "element " << i;
}

TEST(Fft, LengthsWithSmallAndLargePrimes) {
  std::mt19937 random(51);
  for (int64_t n : {1, 2, 3, 4, 5, 8, 12, 30, 37, 41, 74, 97, 128})
    for (bool inverse : {false, true}) {
      const Array x = random_array(random, DType::C128, {2, n});
      expect_near(elements(fft(x, inverse ? FftKind::Inverse : FftKind::Forward, {n})),
                  reference(x, 1, inverse), 1e-10);
    }
}

TEST(Fft, SeveralDimensionsAndRealSignals) {
  std::mt19937 random(52);
  for (auto [real, complex, tolerance] :
       {std::tuple{DType::F32, DType::C64, 1e-3}, {DType::F64, DType::C128, 1e-10}})
    for (int64_t n : {5, 6}) {
      const std::vector<int64_t> lengths{3, 4, n};
      const Array x = random_array(random, real, {2, 3, 4, n});
      const Array half = fft(x, FftKind::RealForward, lengths);
      EXPECT_EQ(half.dtype(), complex);
      ASSERT_EQ(half.shape(), (Shape{2, 3, 4, n / 2 + 1}));
      const Array wide = make_array(complex, x.shape(), elements(x));
      const Array whole = make_array(complex, x.shape(), reference(wide, 3, false));
      expect_near(elements(half), elements(whole.slice({0, 0, 0, 0}, half.shape())), tolerance);
      const Array back = fft(half, FftKind::RealInverse, lengths);
      EXPECT_EQ(back.dtype(), real);
      expect_near(elements(back), elements(x), tolerance);
    }
}

TEST(BatchNorm, TrainingNormalisesEachFeature) {
  std::mt19937 random(53);
  for (DType dtype : {DType::F32, DType::F64}) {
    const Array x = random_array(random, dtype, {4, 3, 5});
    const Array one = make_array(dtype, {3}, {1, 1, 1}), zero = make_array(dtype, {3}, {0, 0, 0});
    const std::vector<Array> out = batch_norm_training(x, one, zero, 0.0, 1);
    for (int64_t f = 0; f < 3; ++f) {
      Number sum = 0, squares = 0, mean = 0;
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 5; ++j) {
          mean += element(x, (i * 3 + f) * 5 + j) / 20.0;
          const Number y = element(out[0], (i * 3 + f) * 5 + j);
          sum += y;
          squares += y * y;
        }
      EXPECT_NEAR(sum.real(), 0, 1e-4);
      EXPECT_NEAR(squares.real() / 20, 1, 1e-4);
      EXPECT_NEAR(element(out[1], f).real(), mean.real(), 1e-5);
    }
    // Inference with the batch's own statistics is the same.
    expect_near(elements(batch_norm(x, one, zero, out[1], out[2], 0.0, 1)), elements(out[0]), 1e-5);
  }
}

TEST(BatchNorm, GradientsAgreeWithDifferences) {
  std::mt19937 random(54);
  const double epsilon = 0.5, step = 1e-6;
  const Array x = random_array(random, DType::F64, {3, 2, 2}),
              grad = random_array(random, DType::F64, {3, 2, 2});
  const Array scale = make_array(DType::F64, {2}, {2, -1}),
              offset = make_array(DType::F64, {2}, {1, 3});
  auto loss = [&](const Array& a, const Array& s, const Array& o) {
    const auto y = elements(batch_norm_training(a, s, o, epsilon, 1)[0]), g = elements(grad);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += (y[i] * g[i]).real();
    return sum;
  };
  const std::vector<Array> forward = batch_norm_training(x, scale, offset, epsilon, 1);
  const std::vector<Array> grads =
      batch_norm_grad(x, scale, forward[1], forward[2], grad, epsilon, 1);
  auto check = [&](const Array& variable, const Array& gradient, auto with) {
    for (int64_t i = 0; i < variable.num_elements(); ++i) {
      Array more = variable.copy(), less = variable.copy();
      set_element(more, i, element(variable, i) + step);
      set_element(less, i, element(variable, i) - step);
      EXPECT_NEAR(element(gradient, i).real(), (with(more) - with(less)) / (2 * step), 1e-5);
    }
  };
  check(x, grads[0], [&](const Array& a) { return loss(a, scale, offset); });
  check(scale, grads[1], [&](const Array& a) { return loss(x, a, offset); });
  check(offset, grads[2], [&](const Array& a) { return loss(x, scale, a); });
}

}  // namespace
}  // namespace cleave
