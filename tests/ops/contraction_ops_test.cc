// dot, dot_general and convolution.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "module_harness.h"

namespace cleave {
namespace {

using ::testing::HasSubstr;

std::string dot_general(const std::string& lhs, const std::string& rhs, const std::string& dims,
                        const std::string& result) {
  return "func.func @main(%a: tensor<" + lhs + ">, %b: tensor<" + rhs + ">) -> tensor<" + result +
         "> {\n  %0 = stablehlo.dot_general %a, %b, " + dims + " : (tensor<" + lhs + ">, tensor<" +
         rhs + ">) -> tensor<" + result + ">\n  return %0 : tensor<" + result + ">\n}";
}

constexpr auto kDot = "stablehlo.dot_general";

TEST(ContractionOps, DotGeneralRule) {
  const Module m(dot_general("4x8x6xf32", "4x6x3xf32",
                             "batching_dims = [0] x [0], contracting_dims = [2] x [1]",
                             "4x8x3xf32"));
  EXPECT_EQ(m.complaint(kDot), "");
  EXPECT_THAT(m.rule(kDot),
              HasSubstr("([i, j, l], [i, l, k])->([i, j, k]) {i=4, j=8, k=3, l=6} reduction={l}"));
  EXPECT_EQ(m.cost(kDot).flops, 2.0 * 4 * 8 * 3 * 6);
  EXPECT_EQ(m.cost(kDot).bytes_read, 4.0 * (4 * 8 * 6 + 4 * 6 * 3));
}

TEST(ContractionOps, DotGeneralIsBilinear) {
  const Module m(dot_general("8x6xf32", "6x3xf32", "contracting_dims = [1] x [0]", "8x3xf32"));
  const PartialTransfer rows = m.partial(kDot);
  auto has = [&](const PartialRow& row) { return std::ranges::find(rows, row) != rows.end(); };
  EXPECT_TRUE(has({ReduceOp::Sum, {true, false}, ReduceOp::Sum}));
  EXPECT_TRUE(has({ReduceOp::Sum, {false, true}, ReduceOp::Sum}));
  EXPECT_FALSE(has({ReduceOp::Sum, {true, true}, ReduceOp::Sum}));
  for (const PartialRow& row : rows) EXPECT_NE(row.in, ReduceOp::Max);
}

TEST(ContractionOps, SumsOfNarrowIntegersDoNotPassAWideningDot) {
  const Module m(dot_general("8x6xi8", "6x3xi8", "contracting_dims = [1] x [0]", "8x3xi32"));
  EXPECT_TRUE(m.partial(kDot).empty());
}

TEST(ContractionOps, BooleanDotsAreCompletedByOr) {
  const Module m(dot_general("8x6xi1", "6x3xi1", "contracting_dims = [1] x [0]", "8x3xi1"));
  const OpShardingRule rule = m.rule_of(kDot);
  EXPECT_EQ(rule.factors.back().kind, FactorKind::Reduction);
  EXPECT_EQ(rule.factors.back().reduce, ReduceOp::Or);
}

TEST(ContractionOps, DotGeneralComplaintsNameShapes) {
  EXPECT_THAT(Module(dot_general("8x6xf32", "5x3xf32", "contracting_dims = [1] x [0]", "8x3xf32"))
                  .complaint(kDot),
              HasSubstr("contracting dimension 1 of lhs has 6 elements and 0 of rhs has 5"));
  EXPECT_THAT(Module(dot_general("8x6xf32", "6x3xf32", "contracting_dims = [2] x [0]", "8x3xf32"))
                  .complaint(kDot),
              HasSubstr("must lie in [0, 2)"));
  EXPECT_THAT(
      Module(dot_general("8x6xf32", "6x8xf32",
                         "batching_dims = [1] x [0], contracting_dims = [1] x [0]", "6xf32"))
          .complaint(kDot),
      HasSubstr("must be distinct"));
}

TEST(ContractionOps, DotOfVectorsAndMatrices) {
  const Module m(R"(
func.func @main(%a: tensor<6xf32>, %b: tensor<6x3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.dot %a, %b : (tensor<6xf32>, tensor<6x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
})");
  EXPECT_EQ(m.complaint("stablehlo.dot"), "");
  EXPECT_THAT(m.rule("stablehlo.dot"), HasSubstr("([j], [j, i])->([i]) {i=3, j=6} reduction={j}"));
}

std::string convolution(const std::string& input, const std::string& kernel,
                        const std::string& result, const std::string& window,
                        int feature_groups = 1, int batch_groups = 1) {
  return "func.func @main(%a: tensor<" + input + ">, %b: tensor<" + kernel + ">) -> tensor<" +
         result +
         "> {\n  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
         "window = {" +
         window + "} {batch_group_count = " + std::to_string(batch_groups) +
         " : i64, feature_group_count = " + std::to_string(feature_groups) + " : i64} : (tensor<" +
         input + ">, tensor<" + kernel + ">) -> tensor<" + result + ">\n  return %0 : tensor<" +
         result + ">\n}";
}

constexpr auto kConv = "stablehlo.convolution";

TEST(ContractionOps, ConvolutionRules) {
  const Module plain(convolution("2x16x5xf32", "3x5x7xf32", "2x14x7xf32", ""));
  EXPECT_EQ(plain.complaint(kConv), "");
  // Sixteen elements: fourteen windows, and nothing left for the window's own factor.
  EXPECT_THAT(plain.rule(kConv),
              HasSubstr("([i, j, k], [m, k, l])->([i, j, l]) {i=2, j=14, k=5, l=7, m=1} "
                        "reduction={k} permutation={j}"));
  const Module strided(convolution("2x16x5xf32", "2x5x7xf32", "2x8x7xf32", "stride = [2]"));
  EXPECT_THAT(strided.rule(kConv), HasSubstr("([i, jk, l], [k, l, m])->([i, j, m])"));
  const Module grouped(convolution("2x16x6xf32", "2x2x9xf32", "2x15x9xf32", "", 3));
  EXPECT_EQ(grouped.complaint(kConv), "");
  EXPECT_THAT(grouped.rule(kConv), HasSubstr("([i, j, kl], [n, l, km])->([i, j, km])"));
  const Module batches(convolution("6x16x5xf32", "2x5x9xf32", "2x15x9xf32", "", 1, 3));
  EXPECT_EQ(batches.complaint(kConv), "");
  EXPECT_THAT(batches.rule(kConv), HasSubstr("([ij, k, l], [n, l, im])->([j, k, im])"));
}

TEST(ContractionOps, ConvolutionComplaints) {
  EXPECT_THAT(Module(convolution("2x16x5xf32", "3x4x7xf32", "2x14x7xf32", "")).complaint(kConv),
              HasSubstr("need a kernel of 5 input features, got 4"));
  EXPECT_THAT(Module(convolution("2x16x5xf32", "3x5x7xf32", "2x14x7xf32", "", 2)).complaint(kConv),
              HasSubstr("feature size of 5 is not divisible by feature_group_count 2"));
  EXPECT_THAT(Module(convolution("2x16x5xf32", "3x5x7xf32", "2x9x7xf32", "")).complaint(kConv),
              HasSubstr("inferred tensor<2x14x7xf32>"));
  EXPECT_THAT(
      Module(convolution("2x16x5xf32", "3x5x7xf32", "2x14x7xf32", "stride = [0]")).complaint(kConv),
      HasSubstr("window_strides [0] must be positive"));
}

std::string einsum(const std::string& config, const std::string& lhs, const std::string& rhs,
                   const std::string& result) {
  return "func.func @main(%a: tensor<" + lhs + ">, %b: tensor<" + rhs + ">) -> tensor<" + result +
         "> {\n  %0 = stablehlo.einsum %a, %b, config = \"" + config + "\" : (tensor<" + lhs +
         ">, tensor<" + rhs + ">) -> tensor<" + result + ">\n  return %0 : tensor<" + result +
         ">\n}";
}

TEST(ContractionOps, EinsumRulesAndValues) {
  constexpr auto kEinsum = "stablehlo.einsum";
  const Module m(einsum("ab,bc->ca", "2x3xf32", "3x2xf32", "2x2xf32"));
  EXPECT_EQ(m.complaint(kEinsum), "");
  EXPECT_THAT(m.rule(kEinsum),
              HasSubstr("([j, k], [k, i])->([i, j]) {i=2, j=2, k=3} reduction={k}"));
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 0, 0, 1, 1, 1};
  const Array lhs = Array::from_bytes(DType::F32, {2, 3}, a.data());
  const Array rhs = Array::from_bytes(DType::F32, {3, 2}, b.data());
  auto values = [](const Array& array) {
    return std::vector<float>(array.data<float>(), array.data<float>() + array.num_elements());
  };
  EXPECT_EQ(values(m.run({lhs, rhs})[0]), (std::vector<float>{4, 10, 5, 11}));
  // Diagonals, labels that one operand sums alone, and labels that both keep.
  const Module diagonal(einsum("aa,ab->a", "2x2xf32", "2x3xf32", "2xf32"));
  EXPECT_EQ(diagonal.complaint(kEinsum), "");
  const Array square = lhs.slice({0, 0}, {2, 2});
  EXPECT_EQ(values(diagonal.run({square, lhs})[0]), (std::vector<float>{6, 75}));
  EXPECT_THAT(Module(einsum("ab,bc->ac", "2x3xf32", "2x2xf32", "2x2xf32")).complaint(kEinsum),
              HasSubstr("label 'b' has sizes 3 and 2"));
}

}  // namespace
}  // namespace cleave
