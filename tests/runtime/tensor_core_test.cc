#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/program_cache.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/trace_scope.h"
#include "cleave/tensors.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Mesh kMesh{{"data", 2}, {"model", 4}};

Tensor floats(Shape shape, std::vector<float> values) {
  return Tensor::from(DType::F32, std::move(shape), values);
}

TEST(Tensor, computes_when_someone_looks) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  const Tensor y = x * 2 + x;
  EXPECT_FALSE(y.is_computed());
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(3, 6, 9, 12));
  EXPECT_TRUE(y.is_computed());
}

TEST(Tensor, what_is_held_is_computed_once) {
  const Tensor x = floats({2}, {1, 2});
  const Tensor y = exp(x), z = y + 1;
  z.to_host();
  EXPECT_TRUE(y.is_computed());
}

TEST(Tensor, knows_its_layout_at_once) {
  const Tensor x = randn({8, 16}).shard(kMesh, P("data", "model"));
  const Tensor w = randn({16, 4}).shard(kMesh, P("model", {}));
  const Tensor y = matmul(x, w);
  EXPECT_EQ(to_string(y.sharding()), R"([{"data"}, {}], unreduced={"model"})");
  EXPECT_FALSE(x.is_computed());
}

TEST(Tensor, a_pending_sum_is_completed_once) {
  const Tensor x = randn({8, 16}).shard(kMesh, P("data", "model"));
  const Tensor y = matmul(x, randn({16, 4}).shard(kMesh, P("model", {})));
  CommLog log;
  const Tensor a = relu(y), b = exp(y);
  a.to_host();
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(to_string(y.sharding()), R"([{"data"}, {}], unreduced={"model"})");
  b.to_host();
  EXPECT_EQ(log.count(), 1);
}

TEST(Tensor, programs_are_cached_by_structure_and_aliasing) {
  const Tensor x = floats({2}, {2, 3}), y = floats({2}, {5, 7});
  EXPECT_THAT(mul(x, y).to_vector<float>(), ElementsAre(10, 21));
  EXPECT_THAT(mul(x, x).to_vector<float>(), ElementsAre(4, 9));
  const ProgramCacheStats before = program_cache_stats();
  EXPECT_THAT(mul(y, x).to_vector<float>(), ElementsAre(10, 21));
  EXPECT_THAT(mul(y, y).to_vector<float>(), ElementsAre(25, 49));
  const ProgramCacheStats after = program_cache_stats();
  EXPECT_EQ(after.hits - before.hits, 2);
  EXPECT_EQ(after.misses, before.misses);
}

TEST(Tensor, a_number_is_no_part_of_the_program) {
  const Tensor x = floats({2}, {2, 3});
  (x * 2.5).to_host();
  const int64_t misses = program_cache_stats().misses;
  EXPECT_THAT((x * 3.5).to_vector<float>(), ElementsAre(7, 10.5));
  EXPECT_EQ(program_cache_stats().misses, misses);
}

TEST(Tensor, long_chains_are_freed_and_computed_without_recursion) {
  Tensor x = floats({1}, {0});
  for (int i = 0; i < 100000; ++i) x = x + 1;
  x = Tensor();
  x = floats({1}, {0});
  const Tensor one = floats({1}, {1});
  for (int i = 0; i < 5000; ++i) x = x + one;
  EXPECT_EQ(x.item(), 5000);
}

TEST(Tensor, memory_is_counted_and_freed_with_the_last_handle) {
  auto total = [] {
    const std::vector<int64_t> bytes = memory_in_use();
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  };
  const int64_t before = total();
  {
    const Tensor x = zeros({64, 64}).shard(kMesh, P("data", {})).evaluate();
    EXPECT_EQ(total() - before, 8 * 32 * 64 * 4);
    const Tensor y = x + x;
    EXPECT_EQ(total() - before, 8 * 32 * 64 * 4);
  }
  EXPECT_EQ(total(), before);
}

TEST(Tensor, shards_say_what_they_hold) {
  const Tensor x = arange(9).shard(Mesh{{"x", 4}}, P("x"));
  std::vector<int64_t> offsets, sizes;
  for (const TensorShard& shard : x.addressable_shards()) {
    offsets.push_back(shard.index.offset[0]);
    sizes.push_back(shard.data.shape()[0]);
  }
  EXPECT_THAT(sizes, ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(offsets, ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(x.to_vector<int32_t>(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Tensor, prints_type_layout_and_values) {
  const Tensor x = floats({2, 3}, {1, -2.5, 3, 0, 0.5, 1}).shard(Mesh{{"x", 2}}, P("x"));
  EXPECT_EQ(fmt::format("{}", x),
            "tensor<2x3xf32> [{\"x\"}, {}] on <[\"x\"=2]>\n"
            "[[ 1.0000, -2.5000,  3.0000],\n"
            " [ 0.0000,  0.5000,  1.0000]]");
  EXPECT_THAT(to_string(iota({2000}, 0)), HasSubstr("[   0,    1,    2, ..., 1997, 1998, 1999]"));
}

TEST(Tensor, files_and_shards_go_in_and_out) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("cleave_tensor_{}.npy", getpid());
  const Tensor x = randn({5, 3}).shard(kMesh, P("data"));
  x.save(path);
  EXPECT_EQ(Tensor::load(path).to_vector<float>(), x.to_vector<float>());
  std::filesystem::remove(path);
  std::vector<Array> shards;
  for (const TensorShard& shard : x.addressable_shards()) shards.push_back(shard.data);
  EXPECT_EQ(Tensor::from_shards(shards, {5, 3}, x.sharding()).to_vector<float>(),
            x.to_vector<float>());
  EXPECT_THAT(error_of([&] {
                Tensor::from_shards(shards, {6, 3}, x.sharding());
              }),
              HasSubstr("device 4 has"));
}

TEST(Tensor, results_do_not_depend_on_what_else_is_held) {
  const Tensor x = randn({8, 16}, 1).shard(kMesh, P("data", "model"));
  const Tensor w = randn({16, 4}, 2).shard(kMesh, P("model"));
  auto program = [&](std::vector<Tensor>* held) {
    const Tensor a = matmul(x, w), b = a * 2, c = b + a, d = exp(c * 0.01);
    if (held) *held = {a, b, c};
    return d.to_vector<float>();
  };
  std::vector<Tensor> held;
  const std::vector<float> alone = program(nullptr), together = program(&held);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], together[i], 1e-5);
  for (const Tensor& tensor : held) EXPECT_TRUE(tensor.is_computed());
}

TEST(Tensor, what_is_drawn_for_a_mesh_is_drawn_there) {
  const Tensor numbers[] = {randn({50, 33}, 7), randn({50, 33}, 8) * 0.02 + 1,
                            rand({50, 33}, 9, DType::F64), iota({50, 33}, 1) * 2,
                            randint(random_key(3), {50, 33}, -5, 5)};
  for (const Tensor& whole : numbers) {
    std::vector<Array> drawn;
    for (const PartitionSpec& spec : {P("data"), P({}, "model"), P({"model", "data"}, {}), P()}) {
      const Tensor parts = whole.shard(kMesh, spec);
      drawn.push_back(parts.to_host());
      EXPECT_FALSE(whole.is_computed()) << "the whole was drawn first";
      for (const TensorShard& shard : parts.addressable_shards())
        EXPECT_EQ(shard.data.shape(), shard.index.size);
    }
    for (const Array& array : drawn) EXPECT_TRUE(identical(array, whole.to_host()));
  }
}

TEST(Tensor, nothing_over_two_devices_is_nothing) {
  const Tensor none = zeros({0, 3}).shard(kMesh, P("data", "model"));
  EXPECT_EQ(to_string(none.sharding()), R"([{}, {"model"}])");
  EXPECT_EQ(none.to_host().shape(), (Shape{0, 3}));
  EXPECT_EQ(sum(none).item(), 0);
  const Tensor rows = concat({none, ones({2, 3}).shard(kMesh, P("data"))}, 0);
  EXPECT_THAT(rows.to_vector<float>(), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(matmul(ones({2, 0}).shard(kMesh, P("data", "model")), none).to_vector<float>(),
              ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(error_of([] { zeros({0, 3}).shard(kMesh, P("nope")); }), HasSubstr("nope"));
}

TEST(Tensor, meshes_do_not_mix) {
  const Tensor x = zeros({8}).shard(kMesh, P("data")), y = zeros({8}).shard(Mesh{{"x", 3}}, P("x"));
  EXPECT_THAT(error_of([&] { x + y; }), HasSubstr("two meshes"));
}

TEST(Tensor, errors_say_what_does_not_fit) {
  const Tensor x = zeros({4, 3});
  EXPECT_THAT(error_of([&] { matmul(x, x); }), HasSubstr("the contracted dimensions are 3 and 4"));
  EXPECT_THAT(error_of([&] { x + zeros({2}); }), HasSubstr("<4x3> and <2>"));
  EXPECT_THAT(error_of([&] { x.shard(kMesh, P("nope")); }), HasSubstr("\"nope\""));
  EXPECT_THAT(error_of([&] { x.with_sharding(P("data")); }), HasSubstr("shard(mesh"));
  EXPECT_THAT(error_of([&] { x + Tensor(); }), HasSubstr("empty Tensor"));
}

TEST(TraceScope, makes_a_function_of_placeholders_and_captures) {
  const Tensor w = randn({4, 3}).shard(kMesh, P({}, "model"));
  TraceScope scope;
  const Tensor x = scope.placeholder(Type::tensor(DType::F32, {8, 4}), std::nullopt, "x");
  const Tensor y = relu(matmul(x, w) * 2);
  EXPECT_TRUE(y.is_traced());
  EXPECT_THAT(error_of([&] { y.to_host(); }), HasSubstr("inside a trace"));
  const Traced traced = scope.finish({y});
  ASSERT_EQ(traced.captures.size(), 1);
  EXPECT_TRUE(traced.captures[0].is_same(w));
  const std::string text = print_module(traced.graph);
  EXPECT_EQ(traced.graph.value(traced.graph.region(traced.function().body).args[0]).name, "x");
  EXPECT_THAT(text, HasSubstr("stablehlo.dot_general"));
  EXPECT_THAT(text, HasSubstr("dense<2.000000e+00> : tensor<f32>"));
  EXPECT_THAT(text, HasSubstr(R"(sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>)"));
  EXPECT_NO_THROW(parse_module(text));

  const Tensor data = randn({8, 4});
  const Tensor again = replay(traced.graph, traced.function(), std::vector{data, w})[0];
  const Tensor direct = relu(matmul(data, w) * 2);
  EXPECT_EQ(again.to_vector<float>(), direct.to_vector<float>());
}

TEST(TraceScope, scopes_nest) {
  TraceScope outer;
  const Tensor x = outer.placeholder(Type::tensor(DType::F32, {4}));
  const Tensor doubled = x + x;
  TraceScope inner;
  const Tensor y = inner.placeholder(Type::tensor(DType::F32, {4}));
  const Traced body = inner.finish({y * doubled});
  ASSERT_EQ(body.captures.size(), 1);
  EXPECT_TRUE(body.captures[0].is_same(doubled));
  const Tensor used = replay(body.graph, body.function(), std::vector{x, body.captures[0]})[0];
  const Traced whole = outer.finish({used});
  EXPECT_EQ(whole.captures.size(), 0);
  const Tensor result =
      replay(whole.graph, whole.function(), std::vector{floats({4}, {1, 2, 3, 4})})[0];
  EXPECT_THAT(result.to_vector<float>(), ElementsAre(2, 8, 18, 32));
  EXPECT_THAT(error_of([&] { outer.finish({y}); }), HasSubstr("inner trace"));
}

TEST(TraceScope, constraints_of_the_program_stay) {
  TraceScope scope;
  const Tensor x = scope.placeholder(Type::tensor(DType::F32, {8, 4}));
  const Traced traced = scope.finish({x.shard(kMesh, P("data"))});
  EXPECT_THAT(print_module(traced.graph),
              HasSubstr(R"(sdy.sharding_constraint %arg0 <@mesh, [{"data"}, {}]>)"));
}

TEST(Replay, runs_any_function_with_regions_and_calls) {
  const Graph graph = parse_module(R"(
    func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.add %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32> }
    func.func @main(%a: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<f32>) {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<4xf32>
      cond {
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %j = stablehlo.add %i, %one : tensor<i32>
        %t = func.call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %y = stablehlo.add %t, %a : tensor<4xf32>
        stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
      }
      %1 = stablehlo.reduce(%0#1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      return %0#1, %1 : tensor<4xf32>, tensor<f32> })");
  for (bool sharded : {false, true}) {
    Tensor a = floats({4}, {1, 2, 3, 4});
    if (sharded) a = a.shard(Mesh{{"x", 2}}, P("x"));
    const std::vector<Tensor> results =
        replay(graph, *graph.find_function("main"),
               std::vector{a, Tensor::from(DType::I32, {}, std::vector{3})});
    EXPECT_THAT(results[0].to_vector<float>(), ElementsAre(15, 30, 45, 60));
    EXPECT_EQ(results[1].item(), 150);
  }
}

}  // namespace
}  // namespace cleave
