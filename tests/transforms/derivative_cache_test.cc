#include "cleave/transforms/derivative_cache.h"

#include <gtest/gtest.h>

#include "cleave/tensors.h"
#include "cleave/transforms.h"

// Derivatives of a function that is called again are not derived again, and never those of another.
namespace cleave {
namespace {

std::vector<float> floats(const Tensor& x) { return x.to_vector<float>(); }

// Of what follows its making.
class Counter {
 public:
  int64_t hits() const { return derivative_cache_stats().hits - before_.hits; }
  int64_t misses() const { return derivative_cache_stats().misses - before_.misses; }

 private:
  DerivativeCacheStats before_ = derivative_cache_stats();
};

TEST(DerivativeCache, AStepThatIsTakenAgainDerivesNothing) {
  const auto loss = [](const Tensor& w, const Tensor& x) { return mean(square(matmul(x, w))); };
  Tensor w = randn({4, 3}, 1);
  const Tensor x = randn({5, 4}, 2);
  value_and_grad(loss)(w, x);
  const Counter counter;
  for (int i = 0; i < 5; ++i) {
    const auto [value, g] = value_and_grad(loss)(w, x);
    const Tensor by_hand = matmul(transpose(x), matmul(x, w)) * (2.0 / 15);
    const std::vector<float> a = floats(g), b = floats(by_hand);
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-5);
    w = (w - g * 0.1).evaluate();
  }
  EXPECT_EQ(counter.misses(), 0);
  EXPECT_EQ(counter.hits(), 5);
}

TEST(DerivativeCache, EverythingAboutTheFunctionCounts) {
  const Tensor x = Tensor::from(DType::F32, {3}, std::vector<float>{1, 2, 3});
  // What the function is changes from call to call, in ways that a trace shows.
  for (int round = 0; round < 2; ++round) {
    for (double c : {2.0, 3.0, -0.0, 0.0}) {
      const auto f = [&](const Tensor& t) { return sum(t * t * c); };
      EXPECT_EQ(floats(grad(f)(x)), floats(x * (2 * c)));
    }
    for (const bool sine : {true, false}) {
      const auto f = [&](const Tensor& t) { return sum(sine ? sin(t) : cos(t)); };
      EXPECT_EQ(floats(grad(f)(x)), floats(sine ? cos(x) : -sin(x)));
    }
    for (const int64_t d : {0, 1}) {
      const Tensor m = Tensor::from(DType::F32, {2, 2}, std::vector<float>{1, 2, 3, 5});
      const auto f = [&](const Tensor& t) { return sum(square(sum(t, {d}))); };
      const std::vector<float> g = floats(grad(f)(m));
      EXPECT_EQ(g,
                d == 0 ? (std::vector<float>{8, 14, 8, 14}) : (std::vector<float>{6, 6, 16, 16}));
    }
  }
}

TEST(DerivativeCache, ByWhichArgumentCounts) {
  const Tensor x = randn({3}, 1), y = randn({3}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) { return sum(a * b * b); };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(floats(grad<0>(f)(x, y)), floats(y * y));
    EXPECT_EQ(floats(grad<1>(f)(x, y)), floats(x * y + x * y));
    const auto [gx, gy] = grad<0, 1>(f)(x, y);
    EXPECT_EQ(floats(gx), floats(y * y));
    EXPECT_EQ(floats(gy), floats(x * y + x * y));
    const auto [value, tangent] =
        jvp(f, std::make_tuple(x, y), std::make_tuple(ones({3}), zeros({3})));
    EXPECT_NEAR(tangent.item(), sum(y * y).item(), 1e-5);
  }
}

TEST(DerivativeCache, TypesLayoutsAndCapturesCount) {
  const Mesh mesh{{"x", 2}};
  const auto f = [](const Tensor& t) { return sum(square(t)); };
  for (int round = 0; round < 2; ++round) {
    for (int64_t n : {4, 6}) {
      const Tensor x = randn({n}, 1);
      EXPECT_EQ(floats(grad(f)(x)), floats(x * 2));
      const Tensor sharded = grad(f)(x.shard(mesh, P("x")));
      EXPECT_EQ(to_string(sharded.sharding()), "[{\"x\"}]");
      EXPECT_EQ(floats(sharded), floats(x * 2));
      EXPECT_FALSE(grad(f)(x).mesh());
    }
    // The same graph on other tensors from outside.
    for (int seed : {1, 2}) {
      const Tensor outside = randn({64}, seed), x = randn({64}, 3);
      const auto g = [&](const Tensor& t) { return sum(t * outside); };
      EXPECT_EQ(floats(grad(g)(x)), floats(outside));
    }
  }
}

TEST(DerivativeCache, ComposesWithOtherTransforms) {
  const auto f = [](const Tensor& t) { return sum(t * t * t); };
  const Tensor x = randn({4}, 1);
  for (int round = 0; round < 2; ++round) {
    const auto slope = [&](const Tensor& t) { return sum(grad(f)(t)); };
    const std::vector<float> second = floats(grad(slope)(x)), expected = floats(x * 6);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(second[i], expected[i], 1e-5);
    const auto [value, pull] = vjp([](const Tensor& t) { return sin(t); })(x);
    EXPECT_EQ(floats(std::get<0>(pull(ones({4})))), floats(cos(x)));
    EXPECT_EQ(floats(std::get<0>(pull(ones({4}) * 2))), floats(cos(x) * 2));
    const Tensor rows = vmap(grad(f))(stack({x, x * 2}));
    EXPECT_EQ(rows.shape(), (Shape{2, 4}));
  }
}

}  // namespace
}  // namespace cleave
