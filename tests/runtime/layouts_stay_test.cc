#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/record.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"

// The layout of a tensor is known when it is recorded, and never changes.
namespace cleave {
namespace {

using testing::HasSubstr;

const Mesh kMesh{{"data", 2}, {"model", 4}};

template <typename F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string layout(const Tensor& x) { return x.mesh() ? to_string(x.sharding()) : "whole"; }

void expect_near(const Tensor& a, const Tensor& b, const std::string& what) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  ASSERT_EQ(x.size(), y.size()) << what;
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], 1e-3 * (1 + std::abs(y[i]))) << what << ", element " << i;
}

TEST(LayoutsStay, ADiamondUnderShardMap) {
  const auto f = [](const Tensor& x, const Tensor& w) {
    const Tensor y = matmul(x, w);
    return std::make_tuple(y, tanh(y), y * 2.0);
  };
  const Tensor x = randn({4, 8}, 1), w = randn({8, 6}, 2);
  const auto mapped = shard_map(f, kMesh, {.in = {P("data", "model"), P("model", {})}});
  const auto [y, z, u] = mapped(x, w);
  const std::string before = layout(y) + layout(z) + layout(u);
  evaluate(std::vector<Tensor>{y, z, u});
  EXPECT_EQ(layout(y) + layout(z) + layout(u), before);
  expect_near(y, matmul(x, w), "y");
  expect_near(z, tanh(matmul(x, w)), "z");
}

TEST(LayoutsStay, APendingSumThatAnOpCompletes) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    const Tensor x = cast(randn({4, 8}, 1), dtype), w = cast(randn({8, 6}, 2), dtype);
    const Tensor y = matmul(x.shard(kMesh, P("data", "model")), w.shard(kMesh, P("model", {})));
    EXPECT_EQ(layout(y), R"([{"data"}, {}], unreduced={"model"})");
    const Tensor z = tanh(y), u = y + y;
    evaluate(std::vector<Tensor>{z, u});
    EXPECT_EQ(layout(y), R"([{"data"}, {}], unreduced={"model"})");
    EXPECT_EQ(layout(u), R"([{"data"}, {}], unreduced={"model"})");
    // What devices hold is what the layout says: parts that add up.
    double sum = 0;
    for (const TensorShard& shard : y.addressable_shards())
      if (shard.index.offset[0] == 0)
        sum += cast(Tensor::from(shard.data), DType::F32).to_vector<float>()[0];
    EXPECT_NEAR(sum, cast(matmul(x, w), DType::F32).to_vector<float>()[0], 0.05);
  }
}

// What a function says about its result happens, though no op of it does that.
TEST(LayoutsStay, AsAFunctionSaysOfItsResults) {
  const Graph graph = parse_module(R"(
    sdy.mesh @mesh = <["data"=2, "model"=4]>
    func.func @main(%x: tensor<8x4xf32>)
        -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
      %0 = stablehlo.tanh %x : tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    })");
  const Tensor whole = randn({8, 4}, 1);
  const Tensor x = whole.shard(kMesh, P("data")).evaluate();
  for (int round = 0; round < 2; ++round) {
    CommLog log;
    const Tensor y = record_function(graph, {&x, 1})[0];
    EXPECT_EQ(layout(y), "[{}, {}]");
    y.evaluate();
    EXPECT_EQ(layout(y), "[{}, {}]");
    EXPECT_EQ(log.count("all_gather"), 1);
    expect_near(y, tanh(whole), "tanh");
  }
  // Another function with the same ops.
  Graph other = graph;
  other.functions[0].result_attrs.clear();
  EXPECT_EQ(layout(record_function(other, {&x, 1})[0]), R"([{"data"}, {}])");
}

// Random programs over sharded tensors: what is recorded is held or dropped, and looked at in any
// order.
TEST(LayoutsStay, RandomPrograms) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const std::vector<PartitionSpec> specs = {P(),
                                              P("data"),
                                              P("model", {}),
                                              P({}, "model"),
                                              P("data", "model"),
                                              P({}, {"data", "model"}),
                                              P("model:(1)2", "data")};
    struct Value {
      Tensor sharded, whole;
      std::string recorded;
    };
    std::vector<Value> values;
    auto add = [&](Tensor sharded, Tensor whole) {
      std::string text = layout(sharded);
      values.push_back({std::move(sharded), std::move(whole), std::move(text)});
    };
    for (int i = 0; i < 3; ++i) {
      const Tensor whole = randn({8, 8}, 10 * seed + i) * 0.3;
      add(whole.evaluate().shard(kMesh, specs[below(specs.size())]), whole);
    }
    auto check = [&] {
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(layout(values[i].sharded), values[i].recorded)
            << "seed " << seed << ", value " << i;
    };
    for (int step = 0; step < 14; ++step) {
      const Value a = values[below(values.size())], b = values[below(values.size())];
      switch (below(12)) {
        case 0:
        case 1:
        case 2:
          add(matmul(a.sharded, b.sharded) * 0.3, matmul(a.whole, b.whole) * 0.3);
          break;
        case 3:
          add(a.sharded + b.sharded, a.whole + b.whole);
          break;
        case 4:
          add(tanh(a.sharded), tanh(a.whole));
          break;
        case 5:
          add(a.sharded * b.sharded, a.whole * b.whole);
          break;
        case 6:
          add(transpose(a.sharded), transpose(a.whole));
          break;
        case 7:
          add(a.sharded.reshard(specs[below(specs.size())]), a.whole);
          break;
        case 8:
          add(a.sharded - mean(b.sharded, {1}, true), a.whole - mean(b.whole, {1}, true));
          break;
        case 9:
          add(softmax(a.sharded), softmax(a.whole));
          break;
        case 10:
          add(cumsum(a.sharded, 0) * 0.2, cumsum(a.whole, 0) * 0.2);
          break;
        default: {
          const Value& looked = values[below(values.size())];
          looked.sharded.evaluate();
          check();
        }
      }
    }
    check();
    for (const Value& value : values) {
      value.sharded.evaluate();
      check();
      expect_near(value.sharded, value.whole, "seed " + std::to_string(seed));
      for (const TensorShard& shard : value.sharded.addressable_shards())
        ASSERT_EQ(shard.data.shape(), shard.index.size);
    }
  }
}

// ---- what is asked of a layout ----

TEST(WithSharding, KeepsWhatPropagationReads) {
  const MeshPtr mesh = shared_mesh(kMesh);
  for (const char* text :
       {R"([{"data", ?}, {?}])", R"([{"data"}p1, {?}p2])", R"([{?}, {}], replicated={"model"})"}) {
    const ShardingSpec spec = parse_sharding(text, mesh);
    const Trace traced = trace([&](const Tensor& x) { return x.with_sharding(spec) * 2; },
                               {.other_sizes = false})(zeros({8, 8}));
    EXPECT_THAT(traced.text(), HasSubstr(text));
    // As a layout it says where elements lie.
    const Tensor y = iota({8, 8}, 0).evaluate().with_sharding(spec);
    EXPECT_EQ(y.sharding().dims[0].axes, spec.dims[0].axes);
    EXPECT_EQ(sum(y).item(), 8 * 28);
  }
}

TEST(ShardMap, WithoutAWordIsAnError) {
  const auto f = [](const Tensor& x) { return tanh(x); };
  const Tensor x = randn({8, 4}, 1);
  for (const ShardMapMode mode : {ShardMapMode::Auto, ShardMapMode::Manual})
    EXPECT_THAT(error_of([&] { shard_map(f, kMesh, {.mode = mode})(x); }),
                HasSubstr("nothing says how to divide the work over <[\"data\"=2, \"model\"=4]>"));
  EXPECT_THAT(error_of([&] { shard_map(f, kMesh, {.in = {std::nullopt}})(x); }),
              HasSubstr("nothing says"));
  EXPECT_THAT(error_of([&] { compile(shard_map(f, kMesh, {}))(x); }), HasSubstr("nothing says"));
  // Something says it: a spec, a tensor on the mesh, a layout or a collective inside.
  expect_near(shard_map(f, kMesh, {.out = {P("data")}})(x), tanh(x), "out");
  expect_near(shard_map(f, kMesh, {.in = {P()}})(x), tanh(x), "replicated");
  expect_near(shard_map(f, kMesh, {})(x.shard(kMesh, P("data"))), tanh(x), "sharded");
  const auto inside = [](const Tensor& t) { return tanh(t.shard(kMesh, P("data"))); };
  expect_near(shard_map(inside, kMesh, {})(x), tanh(x), "inside");
  const auto summed = [](const Tensor& t) { return all_reduce(t, "data"); };
  expect_near(shard_map(summed, kMesh, {.mode = ShardMapMode::Manual})(x), x * 2, "manual");
}

// ---- pending sums ----

TEST(PendingSums, AreDividedInPartsOnlyByWhatIsNotZero) {
  // The parts of the sums are 3 and -1, and 1 and 1.
  const Mesh mesh{{"x", 2}};
  const Tensor a = Tensor::from(DType::F32, {2, 2}, std::vector<float>{3, -1, 1, 1});
  const Tensor y = sum(a.shard(mesh, P({}, "x")), {1});
  ASSERT_THAT(layout(y), HasSubstr("unreduced"));
  const Tensor zero = zeros({2}), one = ones({2});
  EXPECT_EQ((y / zero).to_vector<float>()[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ((y / zero.shard(mesh, P())).to_vector<float>()[0],
            std::numeric_limits<float>::infinity());
  EXPECT_EQ((y / 0.0).to_vector<float>()[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ((y / 1e-60).to_vector<float>()[0], std::numeric_limits<float>::infinity());
  EXPECT_THAT(layout(y / one), testing::Not(HasSubstr("unreduced")));
  // A number, and a mean, are known.
  EXPECT_THAT(layout(y / 4.0), HasSubstr("unreduced"));
  EXPECT_EQ((y / 4.0).to_vector<float>(), (std::vector<float>{0.5, 0.5}));
  EXPECT_THAT(layout(mean(a.shard(mesh, P({}, "x")), {1})), HasSubstr("unreduced"));
}

}  // namespace
}  // namespace cleave
