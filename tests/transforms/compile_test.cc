#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/tensors.h"
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

// ---- donation ----

const std::byte* memory_of(const Tensor& tensor, size_t device = 0) {
  return tensor.addressable_shards()[device].data.raw();
}

int64_t bytes_on(size_t device) {
  const std::vector<int64_t> bytes = memory_in_use();
  return device < bytes.size() ? bytes[device] : 0;
}

std::pair<Weights, Tensor> train(const Weights& p, const Tensor& x) {
  const auto [value, g] = value_and_grad(loss)(p, x);
  return {{p.w - 0.1 * g.w, p.v - 0.1 * g.v}, value};
}

TEST(Compile, DonatedParametersAreUpdatedInPlace) {
  auto plain = compile(train);
  auto step = compile(train, {.donate = {0}});
  Weights p = weights(), q = weights();
  const Tensor x = randn({9, 12}, 3);
  evaluate(std::vector<Tensor>{p.w, p.v, q.w, q.v, x});
  const std::byte *w = memory_of(p.w), *v = memory_of(p.v);
  Tensor value;
  std::tie(p, value) = step(p, x);
  const int64_t before = bytes_on(0);
  for (int i = 0; i < 3; ++i) std::tie(p, value) = step(p, x);
  EXPECT_EQ(bytes_on(0), before);
  EXPECT_EQ(memory_of(p.w), w);
  EXPECT_EQ(memory_of(p.v), v);
  Tensor expected;
  for (int i = 0; i < 4; ++i) std::tie(q, expected) = plain(q, x);
  expect_close(p.w, q.w);
  expect_close(p.v, q.v);
  expect_close(value, expected);
}

// While a step runs there is one copy of the parameters, not two.
TEST(Compile, DonationHalvesTheMemoryOfAnUpdate) {
  auto update = [](const Tensor& t) { return -t; };
  for (const bool donates : {false, true}) {
    Tensor t = ones({1 << 16});
    t.evaluate();
    const int64_t before = bytes_on(0);
    auto f = donates ? compile(update, {.donate = {0}}) : compile(update);
    const Tensor u = f(t);
    EXPECT_EQ(bytes_on(0) - before, donates ? 0 : 4 << 16);
  }
}

TEST(Compile, WhatWasDonatedHasNoValue) {
  auto step = compile(train, {.donate = {0}});
  const Weights p = weights();
  const Tensor x = randn({9, 12}, 3);
  const Tensor later = p.w + 1.0;  // recorded, not computed
  step(p, x);
  auto expect_clear = [](auto f) {
    try {
      f();
      FAIL() << "no error";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("tensor<12x20xf32> was donated"));
    }
  };
  expect_clear([&] { p.w.to_host(); });
  expect_clear([&] { (p.w * 2.0).to_host(); });
  expect_clear([&] { later.to_host(); });
  expect_clear([&] { step(p, x); });
  expect_clear([&] { compile(train)(p, x); });
  EXPECT_NO_THROW(x.to_host());
}

TEST(Compile, DonationIsChecked) {
  const Tensor a = randn({4}, 1);
  auto f = compile([](const Tensor& s, const Tensor& t) { return s + t; }, {.donate = {0}});
  EXPECT_THROW(f(a, a), UserError);  // the same twice
  expect_close(f(a, randn({4}, 2)), randn({4}, 1) + randn({4}, 2));
  auto g = compile([](const Tensor& s) { return -s; }, {.donate = {1}});
  EXPECT_THROW(g(randn({4}, 1)), UserError);
}

TEST(Compile, DonationOverAMesh) {
  const Mesh mesh{{"data", 2}, {"model", 2}};
  const TreeSpec specs(
      std::map<std::string, PartitionSpec>{{"w", P({}, "model")}, {"v", P("model", {})}});
  auto make = [&](std::vector<size_t> donate) {
    return compile(shard_map([](const Weights& p, const Tensor& x) { return train(p, x); }, mesh,
                             {.in = {specs, P("data", {})}, .out = {specs, P()}}),
                   {.donate = std::move(donate)});
  };
  auto step = make({0});
  auto plain = make({});
  Weights p = weights(), q = weights();
  const Tensor x = randn({8, 12}, 3);
  Tensor value, expected;
  for (int i = 0; i < 2; ++i) std::tie(p, value) = step(p, x);
  for (int i = 0; i < 3; ++i) std::tie(q, expected) = plain(q, x);
  std::vector<const std::byte*> before;
  for (size_t d = 0; d < 4; ++d) before.push_back(memory_of(p.w, d));
  const int64_t bytes = bytes_on(3);
  std::tie(p, value) = step(p, x);
  EXPECT_EQ(bytes_on(3), bytes);
  for (size_t d = 0; d < 4; ++d) EXPECT_EQ(memory_of(p.w, d), before[d]) << d;
  expect_close(p.w, q.w);
  expect_close(p.v, q.v);
}

}  // namespace
}  // namespace cleave
