#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "../support/random_specs.h"
#include "cleave/core/error.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/error_of.h"
#include "tests/support/tensor_checks.h"

// What specs say beyond where elements lie: open dimensions, priorities, axes that are to stay
// replicated. docs/decisions/0016 has the order in which they count.
namespace cleave {
namespace {

using testing::HasSubstr;

const Mesh kMesh{{"data", 2}, {"model", 4}};

std::string layout(const Tensor& x) { return x.mesh() ? to_string(x.sharding()) : "whole"; }

// ---- text ----

TEST(SpecText, IsShardys) {
  const std::pair<PartitionSpec, const char*> cases[] = {
      {P(), "[]"},
      {P("data", {}), R"([{"data"}, {}])"},
      {P(open("data"), open()), R"([{"data", ?}, {?}])"},
      {P(priority("x", 1), priority(open({"y", "z"}), 2)), R"([{"x"}p1, {"y", "z", ?}p2])"},
      {P("x:(1)2", nullptr, std::nullopt), R"([{"x":(1)2}, {}, {}])"},
      {P("data").replicated({"model"}), R"([{"data"}], replicated={"model"})"},
      {P(open("x")).replicated("z").unreduced("w"),
       R"([{"x", ?}], replicated={"z"}, unreduced={"w"})"},
      {P({}).unreduced({"x", "y"}, ReduceOp::Max), R"([{}], unreduced=max{"x", "y"})"},
  };
  for (const auto& [spec, text] : cases) {
    EXPECT_EQ(to_string(spec), text);
    EXPECT_EQ(parse_partition_spec(text), spec) << text;
  }
}

TEST(SpecText, OfAnyRank) {
  const PartitionSpec ten = P("a", {}, {}, "b", {}, {}, {}, {"c", "d"}, std::nullopt, open("e"));
  EXPECT_EQ(to_string(ten), R"([{"a"}, {}, {}, {"b"}, {}, {}, {}, {"c", "d"}, {}, {"e", ?}])");
  EXPECT_EQ(to_string(P({}, {}, {}, {}, {}, {}, "x")), R"([{}, {}, {}, {}, {}, {}, {"x"}])");
  EXPECT_EQ(to_string(P({}, {}, {}, {}, {}, "x")), R"([{}, {}, {}, {}, {}, {"x"}])");
}

// What a spec prints is what Shardy's sharding on the mesh prints, and both are read back.
RC_GTEST_PROP(SpecText, IsTheTextOfTheSharding, ()) {
  const MeshPtr mesh = shared_mesh(*random::mesh({3, 64, false}));
  const Shape shape = random::shape(3, 13, 1);
  const ShardingSpec sharding = random::spec(mesh, shape, {true, true, true});
  const std::string text = to_string(sharding);
  const PartitionSpec spec = parse_partition_spec(text);
  RC_ASSERT(to_string(spec) == text);
  RC_ASSERT(to_sharding(spec, mesh, shape) == sharding);
}

TEST(SpecText, ErrorsSayWhatDoesNotFit) {
  const auto of = [](const PartitionSpec& spec) {
    return error_of([&] { to_sharding(spec, shared_mesh(kMesh), {8, 8}); });
  };
  EXPECT_THAT(of(P("data").replicated("data")), HasSubstr("axis \"data\" is used twice"));
  EXPECT_THAT(of(P().replicated("rows")), HasSubstr("rows"));
  EXPECT_THAT(of(P(priority({}, 1))), HasSubstr("priority(open(), 1)"));
  EXPECT_THAT(of(P(priority("data", -1))), HasSubstr("priority -1 is negative"));
  EXPECT_THAT(error_of([] { parse_partition_spec(R"([{"x"}], replicate={"y"})"); }),
              HasSubstr("expected 'replicated' or 'unreduced'"));
  EXPECT_THAT(error_of([] { parse_partition_spec(R"([{"x" "y"}])"); }), HasSubstr("at character"));
}

// ---- ops on tensors ----

TEST(Wishes, ArePartOfTheLayout) {
  const Tensor x = ramp({8, 8});
  const Tensor held = x.shard(kMesh, P("data").replicated("model"));
  EXPECT_EQ(layout(held), R"([{"data"}, {}], replicated={"model"})");
  EXPECT_EQ(layout(x.shard(kMesh, P(priority("data", 1)))), R"([{"data"}p1, {}])");
  EXPECT_EQ(layout(x.shard(kMesh, P(open("data"), priority(open(), 3)))), R"([{"data"}, {}])");
  EXPECT_EQ(layout(held.with_sharding(P())), "[{}, {}]");
  EXPECT_EQ(layout(held.with_sharding(P({}, priority("model", 2)))), R"([{}, {"model"}p2])");
  // They come back from a value that was read.
  held.evaluate();
  EXPECT_EQ(layout(held), R"([{"data"}, {}], replicated={"model"})");
  expect_near(held, x);
}

TEST(Wishes, ExplicitReplicationOverridesEverything) {
  const Tensor x = ramp({8, 8}), w = ramp({8, 8});
  const Tensor held = x.shard(kMesh, P("data").replicated("model"));
  const Tensor column = w.shard(kMesh, P({}, "model")), row = w.shard(kMesh, P("model"));
  EXPECT_EQ(layout(matmul(x.shard(kMesh, P("data")), column)), R"([{"data"}, {"model"}])");
  EXPECT_EQ(layout(matmul(held, column)), R"([{"data"}, {}])");
  EXPECT_EQ(layout(matmul(held, row)), R"([{"data"}, {}])");
  EXPECT_EQ(layout(held + column), R"([{"data"}, {}])");
  // However important the other is, and however much more it splits.
  EXPECT_EQ(layout(held + w.shard(kMesh, P({}, priority({"model", "data"}, 0)))),
            R"([{"data"}, {}])");
  // Nor does a sum stay pending along it.
  const Tensor pending = matmul(x.shard(kMesh, P({}, "model")), row);
  EXPECT_EQ(layout(pending + pending), R"([{}, {}], unreduced={"model"})");
  EXPECT_EQ(layout(pending + held), R"([{"data"}, {}])");
  // What follows from it is free again.
  EXPECT_EQ(layout(relu(held) + column), R"([{"data"}, {"model"}])");
  expect_near(matmul(held, column), matmul(x, w));
  expect_near(matmul(held, row), matmul(x, w));
  expect_near(pending + held, matmul(x, w) + x);
}

TEST(Wishes, ThenLowerPrioritiesThenMoreShardsThenBytes) {
  const Tensor x = ramp({8, 8}), w = ramp({8, 8}), large = ramp({64, 8});
  const Tensor columns = w.shard(kMesh, P({}, "model"));
  // The rows are on more bytes, and give way all the same.
  EXPECT_EQ(layout(matmul(large.shard(kMesh, P("model")), columns)), R"([{"model"}, {}])");
  EXPECT_EQ(layout(matmul(large.shard(kMesh, P(priority("model", 1))), columns)),
            R"([{}, {"model"}])");
  EXPECT_EQ(layout(matmul(large.shard(kMesh, P(priority("model", 1))),
                          w.shard(kMesh, P({}, priority("model", 2))))),
            R"([{"model"}p1, {}])");
  // A result is as important as what it follows from.
  const Tensor late = relu(large.shard(kMesh, P(priority("model", 1))));
  EXPECT_EQ(layout(late), R"([{"model"}p1, {}])");
  EXPECT_EQ(layout(matmul(late, columns)), R"([{}, {"model"}])");
  // More shards, although on fewer bytes; then more bytes.
  EXPECT_EQ(layout(matmul(large.shard(kMesh, P("data")), w.shard(kMesh, P({}, {"data", "model"})))),
            R"([{}, {"data", "model"}])");
  EXPECT_EQ(layout(matmul(large.shard(kMesh, P("data")), w.shard(kMesh, P({}, "data")))),
            R"([{"data"}, {}])");
  // The prefix that is free.
  EXPECT_EQ(layout(matmul(x.shard(kMesh, P("model")),
                          w.shard(kMesh, P({}, priority({"data", "model"}, 1))))),
            R"([{"model"}, {"data"}p1])");
}

// No result ever takes an axis that an operand holds replicated, and the numbers stay.
RC_GTEST_PROP(Wishes, HoldForRandomLayouts, ()) {
  const MeshPtr mesh = shared_mesh(*random::mesh({3, 8, false}));
  const Shape shape{5, 5};
  const auto spec = [&] { return random::spec(mesh, shape, {true, false, true}); };
  const Tensor x = ramp(shape), w = ramp(shape);
  const Tensor a = x.with_sharding(spec()), b = w.with_sharding(spec());
  const auto check = [&](const Tensor& y, const Tensor& whole) {
    for (const Tensor& operand : {a, b})
      for (const AxisRef& axis : operand.sharding().replicated) {
        RC_ASSERT(!overlaps_any(axis, y.sharding().partial));
        for (const DimSpec& dim : y.sharding().dims) RC_ASSERT(!overlaps_any(axis, dim.axes));
      }
    const std::vector<double> got = cast(y, DType::F64).to_vector<double>();
    const std::vector<double> want = cast(whole, DType::F64).to_vector<double>();
    for (size_t i = 0; i < want.size(); ++i)
      RC_ASSERT(std::abs(got[i] - want[i]) <= 1e-4 * (1 + std::abs(want[i])));
  };
  check(a * b, x * w);
  check(matmul(a, b), matmul(x, w));
}

// ---- shard_map ----

TEST(WishesInShardMap, ExplicitReplicationBindsTheResults) {
  const Tensor x = ramp({8, 8}), w = ramp({8, 8});
  const auto f = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  EXPECT_EQ(layout(shard_map(f, kMesh, {.in = {P("data"), P({}, "model")}})(x, w)),
            R"([{"data"}, {"model"}])");
  const Tensor y =
      shard_map(f, kMesh, {.in = {P("data").replicated("model"), P({}, "model")}})(x, w);
  EXPECT_EQ(layout(y), R"([{"data"}, {}])");
  expect_near(y, matmul(x, w));
  // By a constraint inside, and of a tensor that says so itself.
  const auto inside = [&](const Tensor& a, const Tensor& b) {
    return matmul(
        a.with_sharding(to_sharding(P("data").replicated("model"), shared_mesh(kMesh), a.shape())),
        b);
  };
  EXPECT_EQ(layout(shard_map(inside, kMesh, {.in = {std::nullopt, P({}, "model")}})(x, w)),
            R"([{"data"}, {}])");
  EXPECT_EQ(layout(shard_map(f, kMesh, {.in = {std::nullopt, P({}, "model")}})(
                x.shard(kMesh, P("data").replicated("model")), w)),
            R"([{"data"}, {}])");
}

TEST(WishesInShardMap, PrioritiesAndOpenDimensions) {
  const Tensor x = ramp({64, 8}), w = ramp({8, 8});
  const auto f = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  EXPECT_EQ(layout(shard_map(f, kMesh, {.in = {P("model"), P({}, "model")}})(x, w)),
            R"([{"model"}, {}])");
  const Tensor y = shard_map(f, kMesh, {.in = {P(priority("model", 1)), P({}, "model")}})(x, w);
  EXPECT_EQ(layout(y), R"([{}, {"model"}])");
  expect_near(y, matmul(x, w));
  // A closed argument stops what comes from a result; an open one lets it pass to the other.
  const auto sum_of = [](const Tensor& a, const Tensor& b) {
    return std::make_tuple(a + 1.0, a + b);
  };
  const auto with = [&](PartitionSpec a) {
    const auto [first, second] =
        shard_map(sum_of, kMesh, {.in = {a, P("data", "model")}})(x, x * 2.0);
    return layout(first);
  };
  EXPECT_EQ(with(P("data", {})), R"([{"data"}, {}])");
  EXPECT_EQ(with(P("data", open())), R"([{"data"}, {"model"}])");
}

TEST(WishesInShardMap, ByNameInATreeSpec) {
  const std::map<std::string, PartitionSpec> specs{{"", P("data").replicated("model")}};
  const Tensor x = ramp({8, 8}), w = ramp({8, 8});
  const auto f = [](const Tensor& a, const Tensor& b) { return a + b; };
  EXPECT_EQ(layout(shard_map(f, kMesh, {.in = {TreeSpec(specs.at("")), P({}, "model")}})(x, w)),
            R"([{"data"}, {}])");
}

TEST(WishesInCompile, AreHeardAndKeyedByTheSpec) {
  const Tensor x = ramp({64, 8}), w = ramp({8, 8}).shard(kMesh, P({}, "model"));
  auto f = compile([](const Tensor& a, const Tensor& b, const PartitionSpec& spec) {
    return matmul(a.shard(kMesh, spec), b);
  });
  const Tensor plain = f(x, w, P("model")), late = f(x, w, P(priority("model", 1)));
  EXPECT_EQ(f.stats().traces, 2);
  expect_near(plain, matmul(x, w));
  expect_near(late, matmul(x, w));
}

}  // namespace
}  // namespace cleave
