// Every rule and partial transfer of the registry, tried by execution.
#include "cleave/discover/certify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cleave/core/error.h"
#include "cleave/discover/registry_check.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Registry, NoClaimIsWrongAndWhatIsMissingIsListed) {
  const RegistryReport report = check_registry({}, true);
  for (const Claim& claim : report.incorrect) ADD_FAILURE() << to_string(claim);
  EXPECT_GT(report.claims, 2000u);
  for (const Claim& claim : report.untestable) ADD_FAILURE() << to_string(claim);
  EXPECT_EQ(missing_markdown(report),
            file_text(std::string(CLEAVE_SOURCE_DIR) + "/docs/discovery-missing.md"))
      << "make it anew: cleave discover --all --diff --format markdown > docs/discovery-missing.md";
}

TEST(Registry, EveryOpHasASampleOrAReason) {
  for (const auto& [name, reason] : ops_without_sample())
    EXPECT_NE(reason, "no sample is written for it") << name;
  EXPECT_FALSE(reason_without_sample("stablehlo.dot_general"));
  EXPECT_THAT(*reason_without_sample("stablehlo.all_reduce"), testing::HasSubstr("other devices"));
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
  RegistryReport report;
  find_missing(sample, {}, report);
  ASSERT_EQ(report.incorrect.size(), 1u);
  EXPECT_EQ(report.incorrect[0].operands[0], Placement::shard(1));
  EXPECT_TRUE(report.missing.empty());
}

// A rule that says too little: a product whose rule forgets that the other dimensions may be split.
TEST(Certify, FindsWhatARuleDoesNotSay) {
  const Graph sample = parse_module(
      R"mlir(
func.func @main(%arg0: tensor<5x4xf64>, %arg1: tensor<4x7xf64>) -> tensor<5x7xf64> {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [l, j])->([i, j]) {i=5, j=7, k=4, l=4}, custom>} : (tensor<5x4xf64>, tensor<4x7xf64>) -> tensor<5x7xf64>
  return %0 : tensor<5x7xf64>
})mlir",
      "test");
  RegistryReport report;
  find_missing(sample, {}, report);
  EXPECT_TRUE(report.incorrect.empty());
  ASSERT_EQ(report.missing.size(), 1u);
  EXPECT_EQ(report.missing[0].combination, "S(1), S(0) -> P(sum)");
}

}  // namespace
}  // namespace cleave
