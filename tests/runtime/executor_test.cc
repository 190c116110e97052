#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/recorder.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

std::vector<Array> random_args(const Graph& graph) {
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types)
    args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)));
  return args;
}

constexpr const char* kMatmul = R"(
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x12xf32>) -> tensor<8x12xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
    return %0 : tensor<8x12xf32>
  })";

// The body sees local shapes along "y"; the collective is the user's own.
constexpr const char* kManualMatmul = R"(
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x12xf32>) -> tensor<8x12xf32> {
    %0 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{}, {"y"}]>, <@mesh, [{"y"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"y"} (%x: tensor<8x4xf32>, %w: tensor<4x12xf32>) {
      %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8x12xf32>) -> tensor<8x12xf32>
      sdy.return %2 : tensor<8x12xf32>
    } : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
    return %0 : tensor<8x12xf32>
  })";

TEST(Executor, runs_manual_computations) {
  const Graph plain = parse_module(kMatmul), manual = parse_module(kManualMatmul);
  const std::vector<Array> args = random_args(plain);
  const Executor executor(partition(manual, {.entry = "main"}));
  EXPECT_EQ(executor.num_devices(), 8);
  const Comparison comparison =
      compare(executor.run(args)[0], run_function(plain, "main", args)[0]);
  EXPECT_TRUE(comparison.same) << comparison.first;
}

TEST(Executor, gives_each_device_its_true_shard) {
  const Graph graph = parse_module(R"(
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<9xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<9xi32> {
      %0 = stablehlo.add %a, %a : tensor<9xi32>
      return %0 : tensor<9xi32>
    })");
  const Executor executor(partition(graph, {.entry = "main"}));
  std::vector<int64_t> sizes;
  for (int64_t device = 0; device < 4; ++device) {
    const Instance& instance = executor.instance(device);
    sizes.push_back(instance.graph.find_function("main")->arg_types[0].shape[0]);
  }
  EXPECT_THAT(sizes, testing::ElementsAre(3, 3, 3, 0));
}

TEST(Executor, a_device_that_fails_ends_the_run_with_its_error) {
  const Graph graph = parse_module(R"(
    sdy.mesh @mesh = <["x"=2]>
    func.func @main(%a: tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xi32> {
      %0 = stablehlo.add %a, %a : tensor<4xi32>
      stablehlo.custom_call @check.expect_eq(%0, %a) {has_side_effect = true} : (tensor<4xi32>, tensor<4xi32>) -> ()
      return %0 : tensor<4xi32>
    })");
  const Executor executor(partition(graph, {.entry = "main"}));
  EXPECT_THROW(executor.run(std::vector{make_array(Type::tensor(DType::I32, {4}), "ones")}),
               UserError);
}

TEST(Executor, tells_an_observer_what_every_device_does) {
  const Graph graph = parse_module(kManualMatmul);
  const Executor executor(partition(graph, {.entry = "main"}));
  Recorder recorder;
  executor.run(random_args(graph), {.log = nullptr, .observer = &recorder});
  std::vector<int> dots(8);
  for (const Recorder::Event& event : recorder.events())
    if (event.op == "stablehlo.dot_general") ++dots[event.device];
  EXPECT_THAT(dots, testing::Each(1));
  EXPECT_THAT(recorder.timeline(), testing::HasSubstr("stablehlo.dot_general"));
}

TEST(Executor, wrong_arguments_are_a_user_error) {
  const Executor executor(partition(parse_module(kMatmul), {.entry = "main"}));
  EXPECT_THROW(executor.run(std::vector<Array>{}), UserError);
}

}  // namespace
}  // namespace cleave
