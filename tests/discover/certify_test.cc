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

// A rule that the user gives and that is wrong: a row-wise cumulative sum, claimed to be pointwise.
TEST(Certify, FindsAWrongRule) {
  const Graph sample = parse_module(R"mlir(
func.func @main(%arg0: tensor<5x4xf64>) -> tensor<5x4xf64> {
  %0 = stablehlo.reverse %arg0, dims = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=5, j=4}, custom>} : tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
})mlir",
                                    "test");
  bool refuted = false;
  for (const Claim& claim : certify(sample, {})) refuted |= claim.verdict == VerdictKind::Refuted;
  EXPECT_TRUE(refuted);
}

}  // namespace
}  // namespace cleave
