// Pending sums with several users: how often they are completed.
#include <gtest/gtest.h>

#include "sharded_run.h"

namespace cleave {
namespace {

// c and d are products over a cut dimension.
int64_t all_reduces(const std::string& body, const std::string& returned = "%r",
                    const std::string& types = "tensor<8x8xf32>") {
  ShardedRun run(
      "sdy.mesh @mesh = <[\"x\"=2]>\n"
      "func.func @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"x\"}]>}, "
      "%b: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) -> (" +
      types +
      ") {\n"
      "  %two = stablehlo.constant dense<2.0> : tensor<8x8xf32>\n"
      "  %c = stablehlo.dot %a, %b : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>\n"
      "  %e = stablehlo.negate %a : tensor<8x6xf32>\n"
      "  %d = stablehlo.dot %e, %b : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>\n" +
      body + "  return " + returned + " : " + types + "\n}");
  EXPECT_EQ(run.log.count(), run.log.count("all_reduce")) << to_string(run.log);
  return run.log.count("all_reduce");
}

TEST(PendingUsers, ThatMeetOthersAreCompletedTogether) {
  EXPECT_EQ(all_reduces("  %1 = stablehlo.multiply %c, %two : tensor<8x8xf32>\n"
                        "  %2 = stablehlo.add %c, %1 : tensor<8x8xf32>\n"
                        "  %r = stablehlo.subtract %2, %d : tensor<8x8xf32>\n"),
            1);
  EXPECT_EQ(all_reduces("  %1 = stablehlo.add %c, %d : tensor<8x8xf32>\n"
                        "  %2 = stablehlo.subtract %1, %c : tensor<8x8xf32>\n"
                        "  %r = stablehlo.tanh %2 : tensor<8x8xf32>\n"),
            1);
  EXPECT_EQ(all_reduces("  %1 = stablehlo.add %c, %d : tensor<8x8xf32>\n"
                        "  %2 = stablehlo.transpose %c, dims = [1, 0] : (tensor<8x8xf32>) -> "
                        "tensor<8x8xf32>\n"
                        "  %3 = stablehlo.add %2, %1 : tensor<8x8xf32>\n"
                        "  %r = stablehlo.add %3, %d : tensor<8x8xf32>\n"),
            1);
}

TEST(PendingUsers, ThatNeedTheValueGetItOnce) {
  EXPECT_EQ(all_reduces("  %1 = stablehlo.tanh %c : tensor<8x8xf32>\n"
                        "  %r = stablehlo.add %1, %c : tensor<8x8xf32>\n"),
            1);
  // Both the tanh and the sum with d: c once, d once.
  EXPECT_EQ(all_reduces("  %1 = stablehlo.tanh %c : tensor<8x8xf32>\n"
                        "  %2 = stablehlo.add %c, %d : tensor<8x8xf32>\n"
                        "  %r = stablehlo.multiply %1, %2 : tensor<8x8xf32>\n"),
            2);
  // The product of two pending values is no sum of products.
  EXPECT_EQ(all_reduces("  %1 = stablehlo.multiply %c, %c : tensor<8x8xf32>\n"
                        "  %r = stablehlo.add %1, %c : tensor<8x8xf32>\n"),
            1);
}

TEST(PendingUsers, ThatEndInTwoPlacesAreCompletedFirst) {
  EXPECT_LE(all_reduces("  %1 = stablehlo.add %c, %d : tensor<8x8xf32>\n"
                        "  %2 = stablehlo.subtract %c, %d : tensor<8x8xf32>\n"
                        "  %3 = stablehlo.tanh %1 : tensor<8x8xf32>\n"
                        "  %4 = stablehlo.tanh %2 : tensor<8x8xf32>\n"
                        "  %r = stablehlo.add %3, %4 : tensor<8x8xf32>\n"),
            2);
}

}  // namespace
}  // namespace cleave
