#include "cleave/models/initializers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/cleave.h"
#include "tests/support/error_of.h"

namespace cleave::models {
namespace {

using testing::HasSubstr;

struct Case {
  std::string name;
  Tensor (*make)(const Tensor&, const Shape&, DType);
  double deviation, limit;  // of a weight [256, 64]; no number is beyond the limit
};

std::vector<Case> cases() {
  auto deviation = [](double variance) { return std::sqrt(variance); };
  const double average = deviation(1.0 / 160), two = deviation(2.0 / 256), one = 1.0 / 16;
  const double root = std::sqrt(3.0), cut = 2 / 0.87962566103423978;
  return {{"xavier_uniform", xavier_uniform, average, average * root},
          {"xavier_normal", xavier_normal, average, average * cut},
          {"he_uniform", he_uniform, two, two * root},
          {"he_normal", he_normal, two, two * cut},
          {"lecun_uniform", lecun_uniform, one, one * root},
          {"lecun_normal", lecun_normal, one, one * cut}};
}

TEST(Initializers, HaveTheDeviationsOfTheirPapers) {
  const Tensor key = random_key(7);
  for (const Case& c : cases()) {
    const Tensor w = c.make(key, {256, 64}, DType::F32);
    EXPECT_NEAR(stddev(w).item() / c.deviation, 1, 0.02) << c.name;
    EXPECT_NEAR(mean(w).item() / c.deviation, 0, 0.03) << c.name;
    EXPECT_LE(max(abs(w)).item(), c.limit * (1 + 1e-6)) << c.name;
    EXPECT_GT(max(abs(w)).item(), c.limit * 0.98) << c.name;
  }
  EXPECT_EQ(he_normal(key, {4, 4}, DType::BF16).dtype(), DType::BF16);
}

TEST(Initializers, KernelsCountTheirField) {
  EXPECT_EQ(fans_of({3, 3, 16, 32}).in, 144);
  EXPECT_EQ(fans_of({3, 3, 16, 32}).out, 288);
  EXPECT_NEAR(stddev(he_normal(random_key(1), {3, 3, 16, 32})).item(), std::sqrt(2.0 / 144), 3e-3);
  EXPECT_THAT(error_of([] { he_normal(random_key(1), {8}); }), HasSubstr("needs two dimensions"));
}

TEST(Initializers, TruncatedNumbersEndAtTwoDeviations) {
  const Tensor x = truncated_normal(random_key(3), {65536}, 0.5);
  EXPECT_LE(max(abs(x)).item(), 1.0);
  EXPECT_NEAR(stddev(x).item(), 0.5 * 0.8796, 0.005);
}

TEST(Initializers, OrthogonalMatrices) {
  for (const Shape& shape : {Shape{32, 8}, Shape{8, 32}, Shape{64, 64}}) {
    const Tensor w = orthogonal(random_key(5), shape, 2);
    const bool wide = shape[0] < shape[1];
    const Tensor gram = wide ? matmul(w, transpose(w)) : matmul(transpose(w), w);
    EXPECT_LT(max(abs(gram - eye(std::min(shape[0], shape[1])) * 4.0)).item(), 1e-5);
    EXPECT_LT(std::abs(mean(w).item()), 0.2);
  }
}

TEST(Initializers, DoNotDependOnLayouts) {
  const Mesh mesh{{"x", 4}};
  const Tensor key = random_key(9);
  EXPECT_TRUE(identical(lecun_normal(key, {16, 8}).shard(mesh, P("x")).to_host(),
                        lecun_normal(key, {16, 8}).to_host()));
  EXPECT_NEAR(mean(sum(square(embedding(key, 512, 64)), {1})).item(), 1, 0.02);
}

}  // namespace
}  // namespace cleave::models
