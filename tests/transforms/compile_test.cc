#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/cleave.h"
#include "cleave/core/error.h"
#include "cleave/transforms.h"

namespace cleave {
namespace {

struct Weights {
  Tensor w, v;
  template <typename Visitor>
  void visit(Visitor&& visitor) {
    visitor("w", w);
    visitor("v", v);
  }
};

Weights weights() { return {randn({12, 20}, 1), randn({20, 7}, 2)}; }
Tensor model(const Weights& p, const Tensor& x) { return matmul(gelu(matmul(x, p.w)), p.v); }
Tensor loss(const Weights& p, const Tensor& x) { return mean(square(model(p, x))); }

void expect_close(const Tensor& a, const Tensor& b, double tolerance = 1e-5) {
  ASSERT_EQ(a.shape(), b.shape());
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], tolerance * (1 + std::abs(y[i]))) << i;
}

TEST(Compile, RunsOncePerSignature) {
  int runs = 0;
  auto f = compile([&](const Weights& p, const Tensor& x) {
    ++runs;
    return model(p, x);
  });
  const Weights p = weights();
  const Tensor x = randn({9, 12}, 3), y = randn({5, 12}, 4);
  expect_close(f(p, x), model(p, x));
  expect_close(f(p, x + 1.0), model(p, x + 1.0));
  EXPECT_EQ(runs, 1);
  expect_close(f(p, y), model(p, y));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(f.stats().traces, 2);
  EXPECT_EQ(f.stats().runs, 3);
  EXPECT_FALSE(f.stats().last.empty());
}

TEST(Compile, OfAGradientOverAMesh) {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const Weights p = weights();
  const Tensor x = randn({9, 12}, 3);  // 9 rows over 2, 20 columns over 4, 7 over 4
  const auto [value, gradient] = value_and_grad(loss)(p, x);
  auto step = compile(
      shard_map([](const Weights& q, const Tensor& t) { return value_and_grad(loss)(q, t); }, mesh,
                {.in = {TreeSpec(std::map<std::string, PartitionSpec>{{"w", P({}, "model")},
                                                                      {"v", P("model", {})}}),
                        P("data", {})}}));
  for (int i = 0; i < 2; ++i) {
    CommLog log;
    const auto [v, g] = step(p, x);
    expect_close(v, value);
    expect_close(g.w, gradient.w);
    expect_close(g.v, gradient.v);
    EXPECT_GT(log.count("all_reduce"), 0);
  }
  EXPECT_EQ(step.stats().traces, 1);
}

TEST(Compile, TakesShardedArgumentsAsTheyAre) {
  const Mesh mesh{{"x", 3}};
  const Tensor a = randn({7, 6}, 1), b = randn({6, 5}, 2);
  auto f = compile([](const Tensor& s, const Tensor& t) { return relu(matmul(s, t)); });
  const Tensor whole = f(a, b);
  const Tensor sharded = f(a.shard(mesh, P({}, "x")), b.shard(mesh, P("x", {})));
  expect_close(sharded, whole);
  EXPECT_EQ(f.stats().traces, 2);
}

TEST(Compile, IsTheFunctionItselfInsideATrace) {
  auto f = compile([](const Tensor& x) { return sum(sin(x) * x); });
  const Tensor x = randn({6}, 1);
  expect_close(grad(f)(x), cos(x) * x + sin(x));
  expect_close(compile(grad(f))(x), cos(x) * x + sin(x));
  EXPECT_EQ(f.stats().traces, 0);
}

TEST(Compile, KeepsWhatTheFunctionTakesFromOutside) {
  Tensor scale = full({4}, 2.0, DType::F32);
  auto f = compile([&](const Tensor& x) { return x * scale; });
  const Tensor x = randn({4}, 1);
  expect_close(f(x), x * 2.0);
  scale = full({4}, 3.0, DType::F32);
  expect_close(f(x), x * 2.0);  // of the time when it was traced
}

TEST(Compile, RefusesToLookAtValues) {
  auto f = compile([](const Tensor& x) { return x * sum(x).item(); });
  EXPECT_THROW(f(randn({4}, 1)), UserError);
}

}  // namespace
}  // namespace cleave
