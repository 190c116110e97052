#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

void expect_verified(const char* text, const PlannerOptions& options) {
  const Graph graph = parse_module(text);
  double bound = 0;  // of the first, which holds for all
  for (const auto& result : {make_plan(graph, options), plan_by_propagation(graph, options),
                             plan_by_heuristic(graph, options)}) {
    ASSERT_TRUE(result.plan);
    bound = std::max(bound, result.plan->bound.lower_bound);
    EXPECT_GE(result.plan->totals.seconds, bound * (1 - 1e-9)) << result.plan->bound.solver;
    const PlanVerification v = verify_plan(*result.plan, graph, *options.profile);
    EXPECT_TRUE(v.good()) << result.plan->bound.solver << "\n" << to_string(v);
  }
}

// A pending sum is divided part by part if the divisor is not zero; that is so also where the
// divisor has come to the op by a reshard, so that plan and program agree.
TEST(LayoutOps, HideNoConstantDivisor) {
  expect_verified(
      R"(
    func.func @main(%x: tensor<8x32x64xf32>) -> tensor<8x32x1xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
      %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
      %n = stablehlo.constant dense<64.0> : tensor<f32>
      %2 = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
      %3 = stablehlo.divide %1, %2 : tensor<8x32x1xf32>
      %4 = stablehlo.sqrt %3 : tensor<8x32x1xf32>
      return %4 : tensor<8x32x1xf32>
    }
  )",
      options_for("x=8", {R"(broadcast_in_dim.0=[{}, {}, {"x"}])",
                          R"(broadcast_in_dim.1=[{}, {}, {"x"}])", R"(divide.0=[{}, {}, {"x"}])"}));
}

// As JAX writes a shard_map over some of the axes: constraints in its body, and in reducers.
TEST(LayoutOps, InManualBodiesAndReducers) {
  expect_verified(R"(
    sdy.mesh @mesh = <["x"=2, "y"=2]>
    func.func @main(%arg0: tensor<8x32xf32>, %arg1: tensor<32x24xf32>) -> tensor<8x24xf32> {
      %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{?}, {"x", ?}]>, <@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{?}, {?}]>] manual_axes={"x"} (%arg2: tensor<8x16xf32>, %arg3: tensor<16x24xf32>) {
        %4 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x24xf32>) -> tensor<8x24xf32>
        %5 = sdy.sharding_constraint %4 <@mesh, [{?}, {?}]> : tensor<8x24xf32>
        %6 = "stablehlo.all_reduce"(%5) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %7 = stablehlo.add %a, %b : tensor<f32>
          %8 = sdy.sharding_constraint %7 <@mesh, []> : tensor<f32>
          stablehlo.return %8 : tensor<f32>
        }) : (tensor<8x24xf32>) -> tensor<8x24xf32>
        sdy.return %6 : tensor<8x24xf32>
      } : (tensor<8x32xf32>, tensor<32x24xf32>) -> tensor<8x24xf32>
      %1 = stablehlo.tanh %0 : tensor<8x24xf32>
      return %1 : tensor<8x24xf32>
    }
  )",
                  options_for("x=2,y=2"));
}

// A loop with a collective in it, and a function that it calls: as JAX writes fori_loop in a
// shard_map.
TEST(LayoutOps, InManualBodiesWithLoops) {
  expect_verified(R"(
    sdy.mesh @mesh = <["x"=2, "y"=2]>
    func.func @main(%arg0: tensor<8x32xf32>) -> tensor<8x32xf32> {
      %0 = stablehlo.sine %arg0 : tensor<8x32xf32>
      %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"y"}, {"x"}]>] out_shardings=[<@mesh, [{"y"}, {"x"}]>] manual_axes={"x", "y"} (%arg1: tensor<4x16xf32>) {
        %c = stablehlo.constant dense<0> : tensor<i32>
        %2:2 = stablehlo.while(%i = %c, %a = %arg1) : tensor<i32>, tensor<4x16xf32>
        cond {
          %n = stablehlo.constant dense<3> : tensor<i32>
          %4 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %4 : tensor<i1>
        } do {
          %4 = func.call @body(%a) : (tensor<4x16xf32>) -> tensor<4x16xf32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %5 = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %5, %4 : tensor<i32>, tensor<4x16xf32>
        }
        sdy.return %2#1 : tensor<4x16xf32>
      } : (tensor<8x32xf32>) -> tensor<8x32xf32>
      %3 = stablehlo.tanh %1 : tensor<8x32xf32>
      return %3 : tensor<8x32xf32>
    }
    func.func private @body(%arg0: tensor<4x16xf32>) -> tensor<4x16xf32> {
      %0 = "stablehlo.all_reduce"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %2 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) : (tensor<4x16xf32>) -> tensor<4x16xf32>
      %1 = stablehlo.tanh %0 : tensor<4x16xf32>
      return %1 : tensor<4x16xf32>
    }
  )",
                  options_for("x=2,y=2"));
}

// One op of a program may be several of a device, as the update of a row that one device has; a run
// of the loop counts once.
TEST(LayoutOps, ManualBodiesInLoops) {
  expect_verified(R"(
    sdy.mesh @mesh = <["x"=2, "y"=2]>
    func.func @main(%x: tensor<8x32xf32>, %rows: tensor<4xf32>) -> (tensor<8x32xf32>, tensor<4xf32>) {
      %c = stablehlo.constant dense<0> : tensor<i32>
      %0:3 = stablehlo.while(%i = %c, %a = %x, %r = %rows) : tensor<i32>, tensor<8x32xf32>, tensor<4xf32>
      cond {
        %n = stablehlo.constant dense<4> : tensor<i32>
        %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %1 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x", "y"} (%arg2: tensor<4x16xf32>) {
          %7 = "stablehlo.all_reduce"(%arg2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %8 = stablehlo.add %p, %q : tensor<f32>
            stablehlo.return %8 : tensor<f32>
          }) : (tensor<4x16xf32>) -> tensor<4x16xf32>
          sdy.return %7 : tensor<4x16xf32>
        } : (tensor<8x32xf32>) -> tensor<8x32xf32>
        %2 = stablehlo.tanh %1 : tensor<8x32xf32>
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<f32>
        %4 = stablehlo.reshape %3 : (tensor<f32>) -> tensor<1xf32>
        %5 = stablehlo.dynamic_update_slice %r, %4, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %6 = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %6, %2, %5 : tensor<i32>, tensor<8x32xf32>, tensor<4xf32>
      }
      return %0#1, %0#2 : tensor<8x32xf32>, tensor<4xf32>
    }
  )",
                  options_for("x=2,y=2", {R"(while.0#2=[{"x"}])"}));
}

// A pin on the result of an op that says itself how it lies holds for the users of the result. The
// op stays what it is, whoever plans.
TEST(LayoutOps, AndManualComputationsKeepTheirOwnUnderPins) {
  expect_verified(R"(
    sdy.mesh @mesh = <["x"=2, "y"=2]>
    func.func @main(%arg0: tensor<8x32xf32>) -> tensor<8x32xf32> {
      %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x", "y"} (%arg1: tensor<4x16xf32>) {
        %2 = stablehlo.add %arg1, %arg1 : tensor<4x16xf32>
        sdy.return %2 : tensor<4x16xf32>
      } : (tensor<8x32xf32>) -> tensor<8x32xf32>
      %1 = stablehlo.tanh %0 : tensor<8x32xf32>
      return %1 : tensor<8x32xf32>
    }
  )",
                  options_for("x=2,y=2", {R"(manual_computation.0=[{}, {"x"}])"}));
  expect_verified(R"(
    sdy.mesh @mesh = <["x"=2, "y"=2]>
    func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %0 = stablehlo.tanh %a : tensor<64x64xf32>
      %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<64x64xf32>
      %2 = stablehlo.sine %1 : tensor<64x64xf32>
      return %2 : tensor<64x64xf32>
    }
  )",
                  options_for("x=2,y=2", {R"(sharding_constraint.0=[{}, {"x"}])"}));
}

}  // namespace
}  // namespace cleave::plan
