// Dimensions of size 0 are never split in a program, whatever they share a factor with.
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/graph/verify.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
#include "cleave/rules/propagate/propagation.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

constexpr const char* kEmpty = R"(
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<0x4xf32>, %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %c: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<0x4xf32>, tensor<8x4xf32>, tensor<0x8xf32>) {
    %0 = stablehlo.concatenate %b, %a, dim = 0 : (tensor<8x4xf32>, tensor<0x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.slice %b [3:3, 0:4] : (tensor<8x4xf32>) -> tensor<0x4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.pad %1, %zero, low = [8, 0], high = [0, 0], interior = [0, 0] : (tensor<0x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %3 = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<0x4xf32>, tensor<4x8xf32>) -> tensor<0x8xf32>
    return %0, %1, %2, %3 : tensor<8x4xf32>, tensor<0x4xf32>, tensor<8x4xf32>, tensor<0x8xf32>
  })";

TEST(EmptyDimensions, PropagationLeavesThemWhole) {
  Graph graph = parse_module(kEmpty);
  propagate_shardings(graph, {.keep_empty_whole = true});
  EXPECT_NO_THROW(verify_graph(graph));
  const std::vector<ValueId>& args = graph.region(graph.functions[0].body).args;
  const auto empty = get_sharding(graph, args[0]);
  EXPECT_TRUE(!empty || empty->dims[0].axes.empty());
  const Node& concatenate = graph.node(graph.region(graph.functions[0].body).nodes[0]);
  EXPECT_EQ(total_size(get_sharding(graph, concatenate.results[0])->dims[0].axes), 4);
}

// Kernels are priced by the bytes that they read, of which there are none here.
TEST(EmptyDimensions, AreFusedAndPriced) {
  const Graph graph = parse_module(R"(
  func.func @main(%a: tensor<0x3xf32>, %b: tensor<f32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<0x3xf32>, tensor<f32>) -> tensor<f32>
    %1 = stablehlo.add %0, %b : tensor<f32>
    return %1 : tensor<f32>
  })");
  PlannerOptions options = options_for("x=4");
  options.memory = 1 << 20;
  expect_verified_plans(graph, options);
}

TEST(EmptyDimensions, PlansAreVerified) {
  const Graph graph = parse_module(kEmpty);
  expect_verified_plans(graph, options_for("x=4"));
}

}  // namespace
}  // namespace cleave::plan
