// Layouts that annotations ask of ops which cannot run so, or that cost nothing to have.
#include <gtest/gtest.h>

#include <algorithm>

#include "sharded_run.h"

namespace cleave {
namespace {

TEST(AskedLayouts, AReshapeWithFactorsOfItsOwn) {
  for (const char* shapes : {"6x4x8|4x6x8", "6|2x3", "4x3|3x4", "12|3x4x1", "5x6|30", "1x6|6x1"})
    for (int d = 0; d < 3; ++d) {
      const std::string both = shapes;
      const std::string in = both.substr(0, both.find('|')), out = both.substr(both.find('|') + 1);
      std::string dims;
      for (int k = 0, rank = 1 + static_cast<int>(std::count(out.begin(), out.end(), 'x'));
           k < rank; ++k)
        dims += std::string(k ? ", " : "") + (k == d % rank ? "{\"x\"}" : "{}");
      const std::string text =
          "sdy.mesh @mesh = <[\"x\"=3]>\n"
          "func.func @main(%a: tensor<" +
          in + "xf32>) -> tensor<" + out +
          "xf32> {\n"
          "  %0 = stablehlo.reshape %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [" +
          dims + "]>]>} : (tensor<" + in + "xf32>) -> tensor<" + out +
          "xf32>\n"
          "  return %0 : tensor<" +
          out + "xf32>\n}";
      SCOPED_TRACE(text);
      ShardedRun run(text);
    }
}

TEST(AskedLayouts, ABroadcastCutAlongADimensionOfItsOwn) {
  ShardedRun run(R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<5x3xf32>) -> tensor<7x4x5x3xf32> {
  %0 = stablehlo.broadcast %a, sizes = [7, 4] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}, {}, {}]>]>} : (tensor<5x3xf32>) -> tensor<7x4x5x3xf32>
  return %0 : tensor<7x4x5x3xf32>
})");
}

TEST(AskedLayouts, WhatConstantsGiveIsNotSent) {
  // The second operand of the sort is counted, negated and cut; the sort needs all of it.
  ShardedRun run(R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xi32>) {
  %i = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xi32>
  %n = stablehlo.negate %i {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xi32>
  %0:2 = "stablehlo.sort"(%a, %n) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<8xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xi32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xi32>
})");
  EXPECT_EQ(run.log.count(), 0) << to_string(run.log);
}

}  // namespace
}  // namespace cleave
