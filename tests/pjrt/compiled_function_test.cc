#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/pjrt/engine.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/transforms/compile.h"
#include "tests/pjrt/cpu_plugin.h"

// compile(f, {.engine = "xla:..."}) beside compile(f).
namespace cleave::pjrt {
namespace {

using ::testing::HasSubstr;

std::string engine() { return "xla:" + *cpu_plugin(); }

double distance(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

Tensor layer(const Tensor& x, const Tensor& w) { return tanh(matmul(x, w)); }

TEST(CompiledByXla, GivesWhatOurEngineGives) {
  NEED_CPU_PLUGIN();
  const Tensor x = randn({8, 16}, 1), w = randn({16, 4}, 2);
  const auto ours = compile(layer), theirs = compile(layer, {.engine = engine()});
  EXPECT_LT(distance(ours(x, w), theirs(x, w)), 1e-6);
  theirs(x, w);
  EXPECT_EQ(theirs.stats().traces, 1);
  EXPECT_EQ(theirs.stats().runs, 2);
  EXPECT_THAT(theirs.stats().last, HasSubstr("XLA (xla_cpu_pjrt, cpu): 1 device; memory of each: "
                                             "768 B of arguments"));
}

TEST(CompiledByXla, LeavesResultsOnTheDevice) {
  NEED_CPU_PLUGIN();
  const auto f = compile(layer, {.engine = engine()});
  Tensor x = randn({16, 16}, 1).evaluate();
  const Tensor w = randn({16, 16}, 2).evaluate();
  Tensor expected = x;
  for (int i = 0; i < 3; ++i) expected = layer(expected, w);
  for (int i = 0; i < 3; ++i) {
    x = f(x, w);
    EXPECT_TRUE(x.is_computed());
    ASSERT_TRUE(remote_value(x));
    EXPECT_TRUE(x.record()->values[0].empty());  // nothing was fetched
  }
  EXPECT_TRUE(remote_value(w));  // the weight stays there for the next call
  EXPECT_LT(distance(x, expected), 1e-5);
  EXPECT_FALSE(x.record()->values[0].empty());
  // What XLA made is an operand like any other.
  EXPECT_LT(distance(sum(x * x, {0, 1}), sum(expected * expected, {0, 1})), 1e-3);
}

TEST(CompiledByXla, TakesDonatedArguments) {
  NEED_CPU_PLUGIN();
  const auto step = compile([](const Tensor& w, const Tensor& g) { return w - g * 0.5; },
                            {.donate = {0}, .engine = engine()});
  Tensor w = ones({1024}, DType::F32).evaluate();
  const Tensor g = ones({1024}, DType::F32).evaluate(), first = w;
  for (int i = 0; i < 4; ++i) w = step(w, g);
  EXPECT_EQ(w.to_vector<float>()[1023], -1.f);
  EXPECT_THROW(first.to_host(), UserError);
  EXPECT_THAT(step.stats().last, HasSubstr("4.0 KiB of them in arguments"));
  EXPECT_THROW(step(w, w), UserError);
}

// Uneven shards, pending sums, donation: three steps over a mesh, whose state stays on its devices.
TEST(CompiledByXla, RunsOverAMesh) {
  NEED_CPU_PLUGIN();
  const Mesh mesh{{"data", 2}, {"model", 2}};
  const auto update = [](const Tensor& w, const Tensor& x) {
    const Tensor y = tanh(matmul(x, w));
    return std::pair(w - matmul(transpose(x), y) * 0.1, sum(y * y, {0, 1}));
  };
  const auto ours = compile(update);
  const auto theirs = compile(update, {.donate = {0}, .engine = engine()});
  const Tensor x = randn({7, 5}, 1).shard(mesh, P("data", {}));
  Tensor a = randn({5, 3}, 2).shard(mesh, P({}, "model")).evaluate();
  Tensor b = randn({5, 3}, 2).shard(mesh, P({}, "model")).evaluate();
  for (int i = 0; i < 3; ++i) {
    auto [next_a, loss_a] = ours(a, x);
    auto [next_b, loss_b] = theirs(b, x);
    EXPECT_NEAR(loss_a.item(), loss_b.item(), 1e-4);
    a = next_a;
    b = next_b;
    EXPECT_TRUE(b.record()->values[0].empty());
  }
  EXPECT_LT(distance(a, b), 1e-5);
  EXPECT_THAT(theirs.stats().last, HasSubstr("4 devices"));
}

// What one call left on the devices in another layout than the next one wants goes from there to
// there: nothing is fetched.
TEST(CompiledByXla, LaysArgumentsOutAnewOnTheDevices) {
  NEED_CPU_PLUGIN();
  const Mesh mesh{{"a", 2}, {"b", 2}};
  const auto twice = compile([](const Tensor& x) { return x + x; }, {.engine = engine()});
  const auto product =
      compile([](const Tensor& x, const Tensor& y) { return matmul(x, y); }, {.engine = engine()});
  const Tensor a = randn({7, 6}, 1), b = randn({6, 5}, 2);
  const Tensor expected = matmul(a + a, b + b);
  const ShardingSpec target = b.shard(mesh, P("a", {})).sharding();
  for (const auto& spec : {P("b", "a"), P({}, "a"), P({}, {}), P({"a", "b"}, {})}) {
    const Tensor x = twice(a.shard(mesh, P({}, "a")).evaluate());
    const Tensor y = twice(b.shard(mesh, spec).evaluate());
    ASSERT_TRUE(remote_value(y) && y.record()->values[0].empty());
    const Tensor moved = y.with_sharding(target);
    const Tensor z = product(x, moved);
    EXPECT_TRUE(y.record()->values[0].empty()) << "fetched";
    EXPECT_TRUE(remote_value(moved) && moved.record()->values[0].empty()) << "fetched";
    EXPECT_TRUE(remote_value(z) && z.record()->values[0].empty());
    const Tensor again = twice(z);
    EXPECT_TRUE(z.record()->values[0].empty()) << "fetched";
    EXPECT_LT(distance(again, expected + expected), 1e-4);
  }
}

TEST(CompiledByXla, CountsMemoryOfDevices) {
  NEED_CPU_PLUGIN();
  const auto f = compile([](const Tensor& x) { return x + x; }, {.engine = engine()});
  const Tensor x = ones({256}, DType::F32).evaluate();
  f(x);
  const int64_t before = memory_in_use()[0];
  {
    const Tensor y = f(x);
    EXPECT_EQ(memory_in_use()[0], before + 1024);
    y.to_host();
    EXPECT_EQ(memory_in_use()[0], before + 2048);  // on the device and on the host
  }
  EXPECT_EQ(memory_in_use()[0], before);
}

TEST(CompiledByXla, NamesEnginesThatAreNot) {
  const auto f = compile(layer, {.engine = "tpuv9"});
  try {
    f(ones({2, 2}, DType::F32), ones({2, 2}, DType::F32));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no engine 'tpuv9'; say cleave, xla"));
  }
}

}  // namespace
}  // namespace cleave::pjrt
