#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "cleave/tensors.h"

// Sums of 16-bit floats over devices against double precision: rounded once, at the end, wherever
// the contraction is cut. The numbers are such that parts which are rounded on each device fail.
namespace cleave {
namespace {

const Mesh kMesh{{"x", 2}, {"y", 4}};

// The largest distance of two neighbouring numbers of this magnitude.
double spacing(DType dtype, double value) {
  const int bits = dtype == DType::BF16 ? 8 : 11;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - bits);
}

double rounded(DType dtype, double value) {
  const double unit = spacing(dtype, value);
  return std::nearbyint(value / unit) * unit;
}

std::vector<double> doubles(const Tensor& x) { return cast(x, DType::F64).to_vector<double>(); }

// A left side whose halves along the contraction nearly cancel: parts are large, the sum is small.
Tensor cancelling(int64_t rows, int64_t depth, DType dtype) {
  const Tensor half = randn({rows, depth / 2}, 1) * 4;
  const Tensor noise = randn({rows, depth / 2}, 2) * 0.25;
  return cast(concat({half, noise - half}, 1), dtype);
}
Tensor repeated(int64_t depth, int64_t columns, DType dtype) {
  const Tensor half = randn({depth / 2, columns}, 3);
  return cast(concat({half, half}, 0), dtype);
}

class HalfSums : public testing::TestWithParam<DType> {
 protected:
  static constexpr int64_t kRows = 6, kDepth = 256, kColumns = 10;
  Tensor a = cancelling(kRows, kDepth, GetParam()), b = repeated(kDepth, kColumns, GetParam());

  // Element by element in double precision, and as parts of `shards` devices that are each rounded.
  void expect_rounded_once(const Tensor& actual, double scale, int64_t shards) const {
    const std::vector<double> x = doubles(a), y = doubles(b), z = doubles(actual);
    int64_t naive_misses = 0;
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) {
        double exact = 0, magnitude = 0, naive = 0;
        for (int64_t s = 0; s < shards; ++s) {
          double part = 0;
          for (int64_t k = s * kDepth / shards; k < (s + 1) * kDepth / shards; ++k) {
            const double product = scale * x[i * kDepth + k] * y[k * kColumns + j];
            part += product;
            magnitude += std::abs(product);
          }
          exact += part;
          naive += rounded(GetParam(), part);
        }
        // Half a unit in the last place for the rounding, and what 32 bits may lose.
        const double tolerance = 0.501 * spacing(GetParam(), exact) + 1e-6 * magnitude;
        EXPECT_NEAR(z[i * kColumns + j], exact, tolerance) << i << ", " << j;
        naive_misses += std::abs(rounded(GetParam(), naive) - exact) > tolerance;
      }
    EXPECT_GT(naive_misses, kRows * kColumns / 3) << "numbers that prove nothing";
  }

  Tensor product() const {
    return matmul(a.shard(kMesh, P({}, {"x", "y"})), b.shard(kMesh, P({"x", "y"}, {})));
  }
};

TEST_P(HalfSums, a_product_that_is_looked_at) { expect_rounded_once(product(), 1, 8); }

TEST_P(HalfSums, a_product_that_an_op_completes) {
  const Tensor y = product();
  CommLog log;
  const Tensor z = abs(y);
  z.evaluate();
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(log.count(), 1);
  expect_rounded_once(y, 1, 8);
}

TEST_P(HalfSums, a_product_over_one_of_two_axes_that_is_scattered) {
  const Tensor y = matmul(a.shard(kMesh, P({}, "y")), b.shard(kMesh, P("y", {})));
  CommLog log;
  expect_rounded_once(y.reshard(P("y", {})), 1, 4);
  EXPECT_EQ(log.count("all_gather"), 0);
}

TEST_P(HalfSums, linear_ops_carry_it_unrounded) {
  const Tensor y = product();
  CommLog log;
  const Tensor doubled = reshape(transpose(y + y, {1, 0}), {kColumns * kRows}) * 0.5;
  const Tensor z = transpose(reshape(maximum(doubled, -1e4), {kColumns, kRows}), {1, 0});
  expect_rounded_once(z, 1, 8);
  EXPECT_EQ(log.count("all_reduce"), 1);
}

TEST_P(HalfSums, two_products_are_added_before_one_all_reduce) {
  const Tensor left = product(), right = product();
  CommLog log;
  const Tensor z = maximum(left - right * 0.5, -1e4);
  expect_rounded_once(z, 0.5, 8);
  EXPECT_EQ(log.count("all_reduce"), 1);
}

TEST_P(HalfSums, a_sum_over_a_cut_dimension) {
  const Tensor x = concat({a, a * -1 + cast(randn({kRows, kDepth}, 5) * 0.01, GetParam())}, 1);
  const std::vector<double> all = doubles(x);
  const std::vector<double> sums = doubles(sum(x.shard(kMesh, P({}, "y")), {1}));
  for (int64_t i = 0; i < kRows; ++i) {
    double exact = 0, magnitude = 0;
    for (int64_t k = 0; k < 2 * kDepth; ++k) {
      exact += all[i * 2 * kDepth + k];
      magnitude += std::abs(all[i * 2 * kDepth + k]);
    }
    EXPECT_NEAR(sums[i], exact, 0.501 * spacing(GetParam(), exact) + 1e-6 * magnitude);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfSums, testing::Values(DType::F16, DType::BF16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(HalfSums, parts_beyond_the_range_of_the_type_cancel) {
  std::vector<float> left(16, 200), right(16, 50);
  for (size_t k = 8; k < 16; ++k) left[k] = -199;
  const Tensor a = cast(Tensor::from(DType::F32, {1, 16}, left), DType::F16);
  const Tensor b = cast(Tensor::from(DType::F32, {16, 1}, right), DType::F16);
  const Tensor big = matmul(a.shard(kMesh, P({}, "x")), b.shard(kMesh, P("x", {})));
  EXPECT_EQ(cast(big, DType::F32).item(), 400) << "80000 - 79600";
}

TEST(HalfSums, many_small_numbers_add_up) {
  const Tensor a = ones({1, 16384}, DType::F16).shard(kMesh, P({}, {"x", "y"}));
  const Tensor b = ones({16384, 1}, DType::F16).shard(kMesh, P({"x", "y"}, {}));
  EXPECT_EQ(matmul(a, b).item(), 16384) << "in 16 bits, 2048 + 1 is 2048";
  EXPECT_EQ(sum(a).item(), 16384);
}

}  // namespace
}  // namespace cleave
