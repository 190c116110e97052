#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/verify_plan.h"

namespace cleave::plan {
namespace {

// A reducer that sees a value of outside, which a plan would like to leave as a pending sum.
constexpr const char* kCaptures = R"(
  func.func @main(%x: tensor<64x64xf32>, %s: tensor<64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %scale = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    %0 = "stablehlo.reduce"(%x, %zero) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.maximum %a, %b : tensor<f32>
      %2 = stablehlo.minimum %1, %scale : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) {dimensions = array<i64: 1>} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  })";

TEST(Captured, ValuesOfScalarCodeAreWhole) {
  const Graph graph = parse_module(kCaptures);
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh("x=2"));
  options.profile = &builtin_profile("h100");
  for (const char* pin : {"s=[{\"x\"}]", "x=[{\"x\"}, {}]"})
    options.pins.push_back(parse_pin(pin, options.mesh));
  for (const PlannerResult& result :
       {make_plan(graph, options), plan_by_propagation(graph, options),
        plan_by_heuristic(graph, options)}) {
    ASSERT_TRUE(result.plan);
    EXPECT_TRUE(result.plan->find_value("reduce.0")->spec.is_fully_replicated());
    EXPECT_FALSE(result.plan->find_value("reduce.0")->spec.is_partial());
    const PlanVerification v = verify_plan(*result.plan, graph, *options.profile);
    EXPECT_TRUE(v.good()) << result.plan->bound.solver << "\n" << to_string(v);
  }
}

}  // namespace
}  // namespace cleave::plan
