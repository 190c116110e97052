#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_on_xla.h"
#include "tests/pjrt/cpu_plugin.h"
#include "tests/support/planning.h"

// Plans of modules with manual computations of their own, run by XLA: the bodies as they are
// written, what is around them as planned, and free axes inside partitioned.
namespace cleave::pjrt {
namespace {

void expect_verified_by_xla(const std::string& text, const char* mesh) {
  const Graph graph = parse_module(text);
  const plan::PlannerOptions options = plan::options_for(mesh);
  for (const plan::PlannerResult& result :
       {plan::make_plan(graph, options), plan::plan_by_propagation(graph, options),
        plan::plan_by_heuristic(graph, options)}) {
    ASSERT_TRUE(result.plan);
    const plan::XlaVerification v =
        plan::verify_on_xla(*result.plan, graph, *options.profile, "xla:" + *cpu_plugin());
    EXPECT_TRUE(v.good()) << result.plan->bound.solver << " on " << mesh << "\n" << to_string(v);
    EXPECT_GT(v.num_results, 0u);
    double compiled = 0;
    for (const plan::XlaCollectiveCheck& check : v.collectives) compiled += check.compiled;
    EXPECT_GT(compiled, 0) << to_string(v);
  }
}

// Rows by hand over "x" of the devices; `groups` are those along "x".
std::string with_collectives(const char* mesh, const char* groups, const char* pairs) {
  return fmt::format(
      R"(
  sdy.mesh @mesh = <[{0}]>
  func.func @main(%a: tensor<8x6xf32>, %b: tensor<6x12xf32>) -> (tensor<8x12xf32>, tensor<12xf32>, tensor<8x6xf32>) {{
    %0 = stablehlo.tanh %a : tensor<8x6xf32>
    %1:3 = sdy.manual_computation(%0, %b) in_shardings=[<@mesh, [{{"x"}}, {{?}}]>, <@mesh, [{{?}}, {{?}}]>] out_shardings=[<@mesh, [{{"x"}}, {{?}}]>, <@mesh, [{{?}}]>, <@mesh, [{{"x"}}, {{?}}]>] manual_axes={{"x"}} (%p: tensor<4x6xf32>, %q: tensor<6x12xf32>) {{
      %2 = stablehlo.dot_general %p, %q, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x12xf32>) -> tensor<4x12xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x12xf32>, tensor<f32>) -> tensor<12xf32>
      %4 = "stablehlo.all_reduce"(%3) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = {1}, use_global_device_ids}}> ({{
      ^bb0(%s: tensor<f32>, %t: tensor<f32>):
        %5 = stablehlo.add %s, %t : tensor<f32>
        stablehlo.return %5 : tensor<f32>
      }}) : (tensor<12xf32>) -> tensor<12xf32>
      %6 = "stablehlo.collective_permute"(%p) <{{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = {2}}}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
      sdy.return %2, %4, %6 : tensor<4x12xf32>, tensor<12xf32>, tensor<4x6xf32>
    }} : (tensor<8x6xf32>, tensor<6x12xf32>) -> (tensor<8x12xf32>, tensor<12xf32>, tensor<8x6xf32>)
    %7 = stablehlo.negate %1#0 : tensor<8x12xf32>
    return %7, %1#1, %1#2 : tensor<8x12xf32>, tensor<12xf32>, tensor<8x6xf32>
  }})",
      mesh, groups, pairs);
}

TEST(VerifyOnXla, TakesManualComputations) {
  NEED_CPU_PLUGIN();
  expect_verified_by_xla(with_collectives("\"x\"=2", "dense<[[0, 1]]> : tensor<1x2xi64>",
                                          "dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>"),
                         "x=2");
}

TEST(VerifyOnXla, PartitionsFreeAxesOfManualComputations) {
  NEED_CPU_PLUGIN();
  expect_verified_by_xla(
      with_collectives("\"x\"=2, \"y\"=3", "dense<[[0, 3], [1, 4], [2, 5]]> : tensor<3x2xi64>",
                       "dense<[[0, 3], [3, 0], [1, 4], [4, 1], [2, 5], [5, 2]]> : tensor<6x2xi64>"),
      "x=2,y=3");
}

}  // namespace
}  // namespace cleave::pjrt
