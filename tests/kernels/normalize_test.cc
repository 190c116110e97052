#include "cleave/kernels/normalize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace cleave {
namespace {

Array numbers(std::mt19937& random, Shape shape, double scale) {
  Array x(DType::F32, std::move(shape));
  std::normal_distribution<float> normal(0, static_cast<float>(scale));
  for (int64_t i = 0; i < x.num_elements(); ++i) x.data<float>()[i] = normal(random);
  return x;
}

// Rows of the last dimension in double precision.
void expect_rows(const Array& x, const Array& actual, double tolerance,
                 const std::function<std::vector<double>(const std::vector<double>&)>& row) {
  const Array in = x.contiguous();
  ASSERT_EQ(actual.shape(), x.shape());
  const int64_t columns = x.shape().back();
  for (int64_t begin = 0; begin < in.num_elements(); begin += columns) {
    const float* values = in.data<float>() + begin;
    const std::vector<double> expected = row({values, values + columns});
    for (int64_t i = 0; i < columns; ++i)
      EXPECT_NEAR(actual.data<float>()[begin + i], expected[i],
                  tolerance * (1 + std::abs(expected[i])));
  }
}

std::vector<double> reference_softmax(const std::vector<double>& x) {
  const double top = *std::max_element(x.begin(), x.end());
  double total = 0;
  for (double v : x) total += std::exp(v - top);
  std::vector<double> y;
  for (double v : x) y.push_back(std::exp(v - top) / total);
  return y;
}

TEST(Normalize, SoftmaxOfRows) {
  std::mt19937 random(1);
  for (const Shape& shape : {Shape{1}, Shape{37}, Shape{5, 1}, Shape{3, 4, 65}, Shape{2, 300}})
    for (double scale : {1.0, 100.0}) {
      const Array x = numbers(random, shape, scale);
      expect_rows(x, softmax(x), 2e-6, [&](const auto& row) { return reference_softmax(row); });
    }
  const Array view = numbers(random, {6, 9}, 1).transpose({1, 0});
  expect_rows(view, softmax(view), 2e-6, [](const auto& row) { return reference_softmax(row); });
  EXPECT_EQ(softmax(Array(DType::F32, {0, 4})).shape(), (Shape{0, 4}));
}

TEST(Normalize, LayerNormOfRows) {
  std::mt19937 random(2);
  for (const Shape& shape : {Shape{37}, Shape{3, 4, 65}, Shape{2, 300}}) {
    const Array x = numbers(random, shape, 3);
    const Array scale = numbers(random, {shape.back()}, 1),
                shift = numbers(random, {shape.back()}, 1);
    for (bool affine : {false, true})
      expect_rows(x, layer_norm(x, affine ? &scale : nullptr, affine ? &shift : nullptr, 1e-5),
                  1e-5, [&](const std::vector<double>& row) {
                    double mean = 0, variance = 0;
                    for (double v : row) mean += v / static_cast<double>(row.size());
                    for (double v : row)
                      variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
                    std::vector<double> y;
                    for (size_t i = 0; i < row.size(); ++i) {
                      y.push_back((row[i] - mean) / std::sqrt(variance + 1e-5));
                      if (affine) y[i] = y[i] * scale.data<float>()[i] + shift.data<float>()[i];
                    }
                    return y;
                  });
  }
}

}  // namespace
}  // namespace cleave
