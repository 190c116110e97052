#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {
namespace {

// An op that nobody uses, inside another that nobody uses, gives up its operands once. Twice, and
// %0, which @main returns, would look unused.
TEST(DeadOps, InsideDeadOps) {
  Graph graph = parse_module(R"(
func.func @main(%a: tensor<f32>, %b: tensor<i1>) -> tensor<f32> {
  %0 = stablehlo.negate %a : tensor<f32>
  %1 = "stablehlo.if"(%b) ({
    %2 = stablehlo.add %0, %0 : tensor<f32>
    %3 = stablehlo.multiply %2, %0 : tensor<f32>
    stablehlo.return %a : tensor<f32>
  }, {
    stablehlo.return %a : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %0 : tensor<f32>
})",
                             "test");
  remove_dead_ops(graph);
  EXPECT_NO_THROW(verify_graph(graph));
  const std::string text = print_module(graph);
  EXPECT_NE(text.find("stablehlo.negate"), std::string::npos) << text;
  EXPECT_EQ(text.find("stablehlo.if"), std::string::npos) << text;
}

}  // namespace
}  // namespace cleave
