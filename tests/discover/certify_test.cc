// Every rule and partial transfer of the registry, tried by execution.
#include "cleave/discover/certify.h"

#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

TEST(Certify, NoClaimOfTheRegistryIsWrong) {
  size_t claims = 0;
  for (const Graph& sample : registry_samples())
    for (const Claim& claim : certify(sample, {})) {
      ++claims;
      EXPECT_TRUE(claim.verdict == VerdictKind::Tested || claim.verdict == VerdictKind::Untestable)
          << to_string(claim);
    }
  EXPECT_GT(claims, 1000u);
}

// A rule that the user gives and that is wrong: a sort, claimed to be pointwise.
TEST(Certify, FindsAWrongRule) {
  const Graph sample = parse_module(
      R"mlir(
func.func @main(%arg0: tensor<5x4xf64>) -> tensor<5x4xf64> {
  %0 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=5, j=4}, custom>} : (tensor<5x4xf64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
})mlir",
      "test");
  for (const Claim& claim : certify(sample, {})) {
    const bool along_the_sort = claim.operands[0] == Placement::shard(1);
    EXPECT_EQ(claim.verdict, along_the_sort ? VerdictKind::Refuted : VerdictKind::Tested)
        << to_string(claim);
  }
}

}  // namespace
}  // namespace cleave
