#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
#include "tests/support/error_of.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

// What shard_map writes: the rows of a matmul by hand over "x", and a sum over all devices of "x".
std::string by_hand(const char* mesh, const char* free) {
  return fmt::format(
      R"(
  sdy.mesh @mesh = <[{0}]>
  func.func @main(%a: tensor<64x32xf32>, %b: tensor<32x48xf32>) -> (tensor<64x48xf32>, tensor<48xf32>) {{
    %0 = stablehlo.tanh %a : tensor<64x32xf32>
    %1:2 = sdy.manual_computation(%0, %b) in_shardings=[<@mesh, [{{"x"}}, {{}}]>, <@mesh, [{{}}, {{{1}}}]>] out_shardings=[<@mesh, [{{"x"}}, {{{1}}}]>, <@mesh, [{{{1}}}]>] manual_axes={{"x"}} (%p: tensor<32x32xf32>, %q: tensor<32x48xf32>) {{
      %2 = stablehlo.dot_general %p, %q, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x48xf32>) -> tensor<32x48xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<32x48xf32>, tensor<f32>) -> tensor<48xf32>
      %4 = "stablehlo.all_reduce"(%3) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = {2}, use_global_device_ids}}> ({{
      ^bb0(%s: tensor<f32>, %t: tensor<f32>):
        %5 = stablehlo.add %s, %t : tensor<f32>
        stablehlo.return %5 : tensor<f32>
      }}) : (tensor<48xf32>) -> tensor<48xf32>
      sdy.return %2, %4 : tensor<32x48xf32>, tensor<48xf32>
    }} : (tensor<64x32xf32>, tensor<32x48xf32>) -> (tensor<64x48xf32>, tensor<48xf32>)
    %6 = stablehlo.negate %1#0 : tensor<64x48xf32>
    return %6, %1#1 : tensor<64x48xf32>, tensor<48xf32>
  }})",
      mesh, free,
      *free ? "dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>" : "dense<[[0, 1]]> : tensor<1x2xi64>");
}

TEST(ManualPlan, TheBodyIsPricedAndVerified) {
  struct Case {
    std::string text;
    const char* mesh;
  };
  for (const Case& c : {Case{by_hand("\"x\"=2", ""), "x=2"},
                        Case{by_hand("\"x\"=2, \"y\"=2", "\"y\""), "x=2,y=2"}}) {
    const Graph graph = parse_module(c.text);
    const PlannerOptions options = options_for(c.mesh);
    for (const PlannerResult& result :
         {make_plan(graph, options), plan_by_propagation(graph, options),
          plan_by_heuristic(graph, options)}) {
      ASSERT_TRUE(result.plan);
      const Plan& plan = *result.plan;
      EXPECT_GT(plan.find_op("manual_computation.0")->seconds, 0);
      const auto user = std::find_if(
          plan.totals.collectives.begin(), plan.totals.collectives.end(),
          [](const CollectiveTotal& total) { return total.axes == "\"x\"" && total.count == 1; });
      EXPECT_NE(user, plan.totals.collectives.end());
      const PlanVerification v = verify_plan(plan, graph, *options.profile);
      EXPECT_TRUE(v.good()) << plan.bound.solver << " on " << c.mesh << "\n" << to_string(v);
    }
  }
}

// What a device receives of the user's own collectives is counted as of the plan's: an all_reduce
// is a ring, and of four devices each receives three quarters of it twice.
TEST(ManualPlan, CollectivesOfTheBodyAreCountedAsRings) {
  const Graph graph = parse_module(R"(
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<64x32xf32>) -> tensor<16x32xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x"} (%p: tensor<16x32xf32>) {
      %1 = "stablehlo.all_reduce"(%p) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%s: tensor<f32>, %t: tensor<f32>):
        %2 = stablehlo.add %s, %t : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) : (tensor<16x32xf32>) -> tensor<16x32xf32>
      sdy.return %1 : tensor<16x32xf32>
    } : (tensor<64x32xf32>) -> tensor<16x32xf32>
    return %0 : tensor<16x32xf32>
  })");
  const PlannerResult result = make_plan(graph, options_for("x=4"));
  ASSERT_TRUE(result.plan);
  ASSERT_EQ(result.plan->totals.collectives.size(), 1u);
  EXPECT_EQ(result.plan->totals.collectives[0].bytes, 2 * 16 * 32 * 4 * 3 / 4);
}

TEST(ManualPlan, AnotherMeshIsRefused) {
  const Graph graph = parse_module(by_hand("\"x\"=2", ""));
  EXPECT_THAT(error_of([&] { make_plan(graph, options_for("x=4")); }),
              testing::HasSubstr("is written for the mesh"));
}

}  // namespace
}  // namespace cleave::plan
