// Loops that end when numbers have settled: roundings on several devices may end them earlier.
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/pins.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"

namespace cleave::plan {
namespace {

// As many trips as the rounding error of a sum has units, so that two devices take more or fewer of
// them than one does.
constexpr const char* kLoop = R"(
  func.func @main(%a: tensor<8x4096xf32>) -> (tensor<f32>, tensor<8x4096xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %most = stablehlo.constant dense<40.0> : tensor<f32>
    %scale = stablehlo.constant dense<1.0e6> : tensor<f32>
    %columns = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %sum = stablehlo.reduce(%columns init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096xf32>, tensor<f32>) -> tensor<f32>
    %1:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<f32>, tensor<8x4096xf32>
     cond {
      %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4096xf32>, tensor<f32>) -> tensor<f32>
      %d = stablehlo.subtract %s, %sum : tensor<f32>
      %e = stablehlo.abs %d : tensor<f32>
      %f = stablehlo.multiply %e, %scale : tensor<f32>
      %g = stablehlo.minimum %f, %most : tensor<f32>
      %c = stablehlo.compare LT, %i, %g : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n = stablehlo.add %i, %one : tensor<f32>
      stablehlo.return %n, %x : tensor<f32>, tensor<8x4096xf32>
    }
    return %1#0, %1#1 : tensor<f32>, tensor<8x4096xf32>
  })";

TEST(SettlingLoops, CollectivesAreThoseOfTheTripsThatTheDevicesTook) {
  const Graph graph = parse_module(kLoop);
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh("x=2"));
  options.profile = &builtin_profile("h100");
  options.pins.push_back(parse_pin("a=[{\"x\"}, {}]", options.mesh));
  const PlannerResult result = plan_by_propagation(graph, options);
  ASSERT_TRUE(result.plan);
  const PlanVerification v = verify_plan(*result.plan, graph, *options.profile);
  EXPECT_TRUE(v.collectives_good()) << to_string(v);
}

}  // namespace
}  // namespace cleave::plan
