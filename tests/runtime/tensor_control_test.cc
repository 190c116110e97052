#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/ops_stablehlo.h"
#include "cleave/runtime/trace_scope.h"
#include "cleave/tensors.h"
#include "cleave/transforms/flow.h"
#include "tests/support/error_of.h"

// Loops and branches, collectives by name, manual computations, and StableHLO's ops under their
// names.
namespace cleave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Mesh kMesh{{"data", 2}, {"model", 4}};

void expect_same(const Tensor& actual, const Tensor& expected) {
  const Comparison comparison = compare(actual.to_host(), expected.to_host());
  EXPECT_TRUE(comparison.same) << comparison.first;
}

TEST(Control, loops_over_shards_carry_values_and_see_what_is_outside) {
  const Tensor a = randn({4, 4}, 1), w = randn({4, 4}, 2) * 0.3;
  for (bool sharded : {false, true}) {
    const Tensor x = sharded ? a.shard(kMesh, P("data")) : a;
    const Tensor v = sharded ? w.shard(kMesh, P({}, "model")) : w;
    const Tensor y = fori_loop(
        0, 3, [&](const Tensor&, const Tensor& value) { return tanh(matmul(value, v)); }, x);
    expect_same(y, tanh(matmul(tanh(matmul(tanh(matmul(a, w)), w)), w)));
  }
}

TEST(Control, only_the_chosen_branch_is_computed) {
  const Tensor x = randn({4, 4}, 1).shard(kMesh, P("data"));
  for (int which : {0, 1, 2, 7}) {
    const Tensor y =
        switch_case(scalar(which, DType::I32),
                    {[&] { return std::vector{x + 1}; }, [&] { return std::vector{-x}; },
                     [&] { return std::vector{x * 3}; }})[0];
    expect_same(y, which == 0 ? x + 1 : which == 1 ? -x : x * 3);
  }
  TraceScope scope;
  const Tensor index = scope.placeholder(Type::tensor(DType::I32, {}));
  const Tensor y =
      switch_case(index, {[&] { return std::vector{exp(x)}; }, [&] { return std::vector{x}; }})[0];
  const Traced traced = scope.finish({y});
  EXPECT_EQ(traced.captures.size(), 1) << "exp belongs to the branch";
  EXPECT_THAT(
      error_of([&] {
        switch_case(index, {[&] { return std::vector{x}; }, [&] { return std::vector{sum(x)}; }});
      }),
      HasSubstr("tensor<4x4xf32> in one branch and tensor<f32> in another"));
}

TEST(Collectives, on_whole_tensors_say_where_layouts_change) {
  const Tensor a = randn({8, 16}, 1), b = randn({16, 12}, 2);
  const Tensor y = matmul(a.shard(kMesh, P("data", "model")), b.shard(kMesh, P("model")));
  CommLog log;
  expect_same(all_reduce(y, "model"), matmul(a, b));
  EXPECT_EQ(log.count("all_reduce"), 1);
  log.clear();
  const Tensor z = matmul(a.shard(kMesh, P("data", "model")), b.shard(kMesh, P("model")));
  const Tensor scattered = reduce_scatter(z, "model", 1);
  EXPECT_EQ(to_string(scattered.sharding()), R"([{"data"}, {"model"}])");
  expect_same(scattered, matmul(a, b));
  EXPECT_EQ(log.count("reduce_scatter"), 1);
  log.clear();
  const Tensor x = a.shard(kMesh, P("data", "model")).evaluate();
  expect_same(all_gather(x, "model", 1), a);
  EXPECT_EQ(log.count("all_gather"), 1);
  log.clear();
  const Tensor moved = all_to_all(a.shard(kMesh, P({}, "model")).evaluate(), "model", 1, 0);
  EXPECT_EQ(to_string(moved.sharding()), R"([{"model"}, {}])");
  expect_same(moved, a);
  EXPECT_EQ(to_string(all_reduce(x, "model").sharding()), to_string(x.sharding()));
  EXPECT_THAT(error_of([&] { all_gather(x, "data", 1); }), HasSubstr("not sharded over"));
  EXPECT_THAT(error_of([&] { axis_index("data"); }), HasSubstr("shard_map"));
}

TEST(Collectives, permute_moves_parts_along_an_axis) {
  const Tensor x = arange(8).shard(kMesh, P("model"));
  EXPECT_THAT(ppermute(x, "model", {{0, 1}, {1, 2}, {2, 3}, {3, 0}}).to_vector<int32_t>(),
              ElementsAre(6, 7, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(ppermute(x, "model", {{0, 3}}).to_vector<int32_t>(),
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(axis_index(kMesh, "model").to_vector<int32_t>(), ElementsAre(0, 1, 2, 3));
}

TEST(ManualComputation, runs_on_every_part_with_collectives_among_them) {
  const Tensor a = randn({8, 16}, 1), b = randn({16, 12}, 2), bias = randn({12}, 3);
  const Tensor y = manual_computation(
      [&](std::span<const Tensor> x) {
        EXPECT_EQ(x[0].shape(), (Shape{4, 4}));
        return std::vector{all_reduce(matmul(x[0], x[1]), "model") + bias};
      },
      kMesh, {a, b}, {P("data", "model"), P("model")}, {P("data")})[0];
  CommLog log;
  expect_same(y, matmul(a, b) + bias);
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(log.bytes("all_reduce"), 3 * 4 * 12 * 4);
  EXPECT_THAT(to_string(log), HasSubstr("\"model\"        x1"));
  const std::vector<Tensor> parts = manual_computation(
      [](std::span<const Tensor> x) {
        return std::vector{
            all_gather(x[0], "model", 0),
            reduce_scatter(all_gather(x[0], "model", 0), "model", 0),
            all_to_all(all_gather(x[0], "model", 0), "model", 0, 0),
            broadcast_to(axis_index("model"), {1}),
            broadcast_to(axis_index({"data", "model"}), {1}),
        };
      },
      kMesh, {arange(4)}, {P("model")},
      {P(), P("model"), P("model"), P("model"), P({{"data", "model"}})});
  EXPECT_THAT(parts[0].to_vector<int32_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(parts[1].to_vector<int32_t>(), ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(parts[3].to_vector<int32_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(parts[4].to_vector<int32_t>(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(error_of([&] {
                manual_computation([](auto x) { return std::vector{x[0]}; }, kMesh, {zeros({7})},
                                   {P("data")}, {P("data")});
              }),
              HasSubstr("does not divide evenly"));
}

TEST(StableHlo, ops_by_name_and_with_bodies) {
  const Tensor x = randn({4, 6}, 1).shard(kMesh, P("data"));
  expect_same(stablehlo::tanh(stablehlo::add(x, x)), tanh(x + x));
  const Tensor zero = scalar(0.0, DType::F32);
  const Tensor total = stablehlo::reduce({&x, 1}, {&zero, 1}, {0, 1}, [](auto v) {
    return std::vector{stablehlo::add(v[0], v[1])};
  })[0];
  expect_same(total + 0, sum(x) + 0);
  const Tensor sorted = stablehlo::sort({&x, 1}, 1, true, [](auto v) {
    return std::vector{stablehlo::compare("LT", v[0], v[1])};
  })[0];
  expect_same(sorted, sort(x, 1));
  const Tensor mapped =
      stablehlo::map({&x, 1}, [](auto v) { return std::vector{v[0] * v[0] + 1}; });
  expect_same(mapped, x * x + 1);
  expect_same(stablehlo::dot_general(x, x, {}, {}, {1}, {1}), matmul(x, transpose(x)));
  EXPECT_THAT(error_of([&] { stablehlo::add(x, zero); }), HasSubstr("stablehlo.add"));
  EXPECT_THAT(error_of([&] { stablehlo::op("stablehlo.nope", {x}); }), HasSubstr("no op"));
}

}  // namespace
}  // namespace cleave
