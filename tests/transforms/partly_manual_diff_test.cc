// Reductions whose scalar code holds a sharding constraint, as JAX writes them inside a shard_map
// that is manual on some axes only, have derivatives like any other.
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/transforms/diff.h"

namespace cleave {
namespace {

TEST(PartlyManualDiff, ConstraintsInScalarCodeAreNoObstacle) {
  Graph graph = parse_module(R"(
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%a: tensor<4xf32>) -> tensor<f32> {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %one) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
     reducer(%p: tensor<f32>, %q: tensor<f32>)  {
      %1 = stablehlo.multiply %p, %q : tensor<f32>
      %2 = sdy.sharding_constraint %1 <@mesh, []> : tensor<f32>
      %3 = stablehlo.negate %2 : tensor<f32>
      %4 = sdy.sharding_constraint %3 <@mesh, []> : tensor<f32>
      %5 = stablehlo.negate %4 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }
    return %0 : tensor<f32>
  })");
  const std::string name = grad(graph, "main");
  const std::vector<float> data = {1, 2, 3, 4};
  const std::vector<Array> args = {Array::from_bytes(DType::F32, {4}, data.data())};
  const Array result = run_function(graph, name, args)[0].contiguous();
  for (int64_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(result.data<float>()[i], 24 / data[i]);
}

}  // namespace
}  // namespace cleave
