// A shard_map that is manual on some axes only: JAX puts sharding constraints into the scalar code
// of its reductions.
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/ops/sort/comparator.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

constexpr const char* kPartlyManual = R"(
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%a: tensor<4x6xf32>, %b: tensor<6x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %0:2 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{?}, {"x", ?}]>, <@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{?}, {?}]>, <@mesh, [{?}, {?}]>] manual_axes={"x"} (%p: tensor<4x3xf32>, %q: tensor<3x8xf32>) {
      %1 = stablehlo.dot_general %p, %q, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
      %2 = sdy.sharding_constraint %1 <@mesh, [{?}, {?}]> : tensor<4x8xf32>
      %3 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%s: tensor<f32>, %t: tensor<f32>):
        %4 = stablehlo.add %s, %t : tensor<f32>
        %5 = sdy.sharding_constraint %4 <@mesh, []> : tensor<f32>
        stablehlo.return %5 : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %6 = "stablehlo.sort"(%3) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%s: tensor<f32>, %t: tensor<f32>):
        %7 = sdy.sharding_constraint %s <@mesh, []> : tensor<f32>
        %8 = stablehlo.compare GT, %7, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %9 = sdy.sharding_constraint %8 <@mesh, []> : tensor<i1>
        stablehlo.return %9 : tensor<i1>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      sdy.return %3, %6 : tensor<4x8xf32>, tensor<4x8xf32>
    } : (tensor<4x6xf32>, tensor<6x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xf32>
  })";

TEST(PartlyManual, ScalarCodeIsKnownBehindConstraints) {
  const Graph graph = parse_module(kPartlyManual);
  int found = 0;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.name() == "stablehlo.all_reduce") {
      const auto reducers = recognise_reducers(graph, node.regions[0]);
      ASSERT_TRUE(reducers);
      EXPECT_EQ(*reducers, std::vector{Reducer::Sum});
      ++found;
    }
    if (node.name() == "stablehlo.sort") {
      const auto keys = recognise_comparator(graph, node.regions[0]);
      ASSERT_TRUE(keys);
      EXPECT_TRUE((*keys)[0].order.descending);
      ++found;
    }
  });
  EXPECT_EQ(found, 2);
}

TEST(PartlyManual, PlansAreVerified) {
  const Graph graph = parse_module(kPartlyManual);
  expect_verified_plans(graph, options_for("x=2,y=2"));
}

}  // namespace
}  // namespace cleave::plan
