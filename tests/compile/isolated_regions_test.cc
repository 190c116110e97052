// Regions that see only their own arguments keep what they compute for themselves.
#include <gtest/gtest.h>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/rewrite/simplify.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {
namespace {

constexpr const char* kManual = R"(
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<4x3xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%p: tensor<2x3xf32>) {
      %nothing = stablehlo.constant dense<0.0> : tensor<f32>
      %2 = stablehlo.pad %p, %nothing, low = [0, 0], high = [0, 3], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x6xf32>
      sdy.return %2 : tensor<2x6xf32>
    } : (tensor<4x3xf32>) -> tensor<4x6xf32>
    return %1, %0 : tensor<4x6xf32>, tensor<4xf32>
  })";

constexpr const char* kNamed = R"(
  func.func @main(%a: tensor<4x3xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = sdy.named_computation<"f">(%a) (%p: tensor<4x3xf32>) {
      %nothing = stablehlo.constant dense<0.0> : tensor<f32>
      %2 = stablehlo.pad %p, %nothing, low = [0, 0], high = [0, 3], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x6xf32>
      sdy.return %2 : tensor<4x6xf32>
    } : (tensor<4x3xf32>) -> tensor<4x6xf32>
    return %1, %0 : tensor<4x6xf32>, tensor<4xf32>
  })";

TEST(IsolatedRegions, TakeNoConstantsFromOutside) {
  for (const char* text : {kManual, kNamed}) {
    Graph graph = parse_module(text);
    const std::vector<Array> args = {make_array(graph.functions[0].arg_types[0], "random:1")};
    const std::vector<Array> expected = run_function(graph, "main", args);
    const std::vector<Array> compiled = Executable(graph, "main").run(args);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(compiled[i].shape(), expected[i].shape());
      const Array a = compiled[i].contiguous(), b = expected[i].contiguous();
      for (int64_t k = 0; k < a.num_elements(); ++k)
        EXPECT_FLOAT_EQ(a.data<float>()[k], b.data<float>()[k]);
    }
    merge_common(graph);
    EXPECT_NO_THROW(verify_graph(graph));
  }
}

}  // namespace
}  // namespace cleave
