#include <gtest/gtest.h>

#include <cmath>

#include "cleave/tensors.h"
#include "cleave/transforms.h"

// CommLog counts every collective that runs, whoever asked for it.
namespace cleave {
namespace {

const Mesh kMesh{{"data", 2}, {"model", 4}};

Tensor pending() {
  return matmul(randn({8, 16}, 1).shard(kMesh, P("data", "model")),
                randn({16, 12}, 2).shard(kMesh, P("model", {})))
      .evaluate();
}

TEST(CommCounts, LookingAtAPendingSum) {
  const Tensor y = pending();
  CommLog log;
  y.to_host();
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(log.bytes("all_reduce"), 3 * 4 * 12 * 4);
  log.clear();
  all_gather(pending(), "data", 0).to_host();
  EXPECT_EQ(log.count("all_gather"), 1);
  EXPECT_EQ(log.count("all_reduce"), 1);
  log.clear();
  sum(pending()).item();
  EXPECT_EQ(log.count("all_reduce"), 1);
}

TEST(CommCounts, CollectivesThatAFunctionCallsItself) {
  const ShardMapOptions options{
      .in = {P("data")}, .out = {P()}, .mode = ShardMapMode::Manual, .check_replication = false};
  const auto reduced =
      shard_map([](const Tensor& a) { return all_reduce(square(a), "data"); }, kMesh, options);
  const auto gathered =
      shard_map([](const Tensor& a) { return all_gather(a, "data", 0); }, kMesh, options);
  const Tensor x = randn({8, 4}, 1).evaluate();
  for (const bool compiled : {false, true}) {
    CommLog log;
    if (compiled)
      compile(reduced)(x);
    else
      reduced(x).evaluate();
    EXPECT_EQ(log.count("all_reduce"), 1) << compiled;
    EXPECT_EQ(log.bytes("all_reduce"), 4 * 4 * 4) << compiled;
    if (compiled)
      compile(gathered)(x);
    else
      gathered(x).evaluate();
    EXPECT_EQ(log.count("all_gather"), 1) << compiled;
    EXPECT_EQ(log.bytes("all_gather"), 4 * 4 * 4) << compiled;
  }
}

// The norm of all gradients, some cut and some not.
Tensor clipped(const std::vector<Tensor>& grads) {
  Tensor total = zeros({});
  for (const Tensor& g : grads) total = total + sum(square(g));
  const Tensor scale = minimum(1.0 / sqrt(total), 1.0);
  Tensor all = zeros({});
  for (const Tensor& g : grads) all = all + sum(g * scale);
  return all;
}

TEST(CommCounts, ANormOfManyTensorsTakesOneAllReduce) {
  std::vector<Tensor> whole, cut;
  for (int i = 0; i < 8; ++i) {
    whole.push_back(randn({8, 8}, i).evaluate());
    cut.push_back(whole.back().shard(kMesh, i % 2 ? P() : P({}, "model")).evaluate());
  }
  const double expected = clipped(whole).item();
  for (const bool compiled : {false, true}) {
    CommLog log;
    const Tensor result = compiled ? compile(clipped)(cut) : clipped(cut);
    result.evaluate();
    EXPECT_EQ(log.count("all_reduce"), 2) << compiled << "\n" << to_string(log);
    EXPECT_EQ(log.count(), 2) << compiled << "\n" << to_string(log);
    EXPECT_NEAR(result.item(), expected, 1e-3 * std::abs(expected) + 1e-3) << compiled;
  }
}

TEST(CommCounts, SumsThatDependOnEachOtherStayApart) {
  const Tensor a = randn({8}, 1), b = randn({8}, 2);
  const auto f = [](const Tensor& x, const Tensor& y) {
    const Tensor first = sum(x) + 1.0;
    return exp(sum(y * first) * 0.01) + first;
  };
  const Tensor x = a.shard(kMesh, P("model")).evaluate(), y = b.shard(kMesh, P("model")).evaluate();
  CommLog log;
  EXPECT_NEAR(f(x, y).item(), f(a, b).item(), 1e-4);
  EXPECT_EQ(log.count("all_reduce"), 2);
  EXPECT_NEAR(compile(f)(x, y).item(), f(a, b).item(), 1e-4);
}

}  // namespace
}  // namespace cleave
