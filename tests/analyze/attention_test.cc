#include "cleave/analyze/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"
#include "cleave/plan/names.h"

namespace cleave::analyze {
namespace {

std::vector<Attention> attentions_of(const Graph& graph) {
  const Graph flat = plan::flatten(graph, "main");
  return find_attention(flat, flat.find_function("main")->body);
}

std::string roles(const Attention& attention) {
  std::string text;
  for (const AttentionProduct& product : attention.products)
    text += (text.empty() ? "" : ", ") + std::string(name(product.role));
  return text;
}

double share(const Attention& attention, AttentionRole role) {
  for (const AttentionProduct& product : attention.products)
    if (product.role == role) return product.share;
  return 0;
}

// As jax.nn.softmax(jnp.where(mask, einsum("bqhd,bkhd->bhqk") * c, -1e9)) is lowered.
std::string jax_attention(const std::string& extra, const std::string& direction = "GE") {
  return R"(module @jit_f {
  func.func public @main(%q: tensor<2x64x4x16xbf16>, %k: tensor<2x64x4x16xbf16>, %v: tensor<2x64x4x16xbf16>) -> (tensor<2x4x64x16xbf16>)" +
         std::string(extra.empty() ? "" : ", tensor<2x4x64x64xbf16>") + R"() {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x64x4x16xbf16>, tensor<2x64x4x16xbf16>) -> tensor<2x4x64x64xbf16>
    %cst = stablehlo.constant dense<2.500000e-01> : tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x4x64x64xbf16>
    %2 = stablehlo.multiply %0, %1 : tensor<2x4x64x64xbf16>
    %3 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %4 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %5 = stablehlo.compare )" +
         direction +
         R"(, %3, %4, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %6 = stablehlo.broadcast_in_dim %5, dims = [2, 3] : (tensor<64x64xi1>) -> tensor<2x4x64x64xi1>
    %cst_0 = stablehlo.constant dense<-1.000000e+09> : tensor<bf16>
    %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<2x4x64x64xbf16>
    %8 = stablehlo.select %6, %2, %7 : tensor<2x4x64x64xi1>, tensor<2x4x64x64xbf16>
    %9 = stablehlo.convert %8 : (tensor<2x4x64x64xbf16>) -> tensor<2x4x64x64xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x64xf32>
    %13 = stablehlo.subtract %9, %12 : tensor<2x4x64x64xf32>
    %14 = stablehlo.exponential %13 : tensor<2x4x64x64xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x64xf32>
    %18 = stablehlo.divide %14, %17 : tensor<2x4x64x64xf32>
    %19 = stablehlo.convert %18 : (tensor<2x4x64x64xf32>) -> tensor<2x4x64x64xbf16>
    %20 = stablehlo.dot_general %19, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x4x64x64xbf16>, tensor<2x64x4x16xbf16>) -> tensor<2x4x64x16xbf16>
    return %20)" +
         (extra.empty() ? " : " : ", " + extra + " : ") + "tensor<2x4x64x16xbf16>" +
         (extra.empty() ? "" : ", tensor<2x4x64x64xbf16>") + "\n  }\n}\n";
}

TEST(Attention, AsJaxWritesIt) {
  const Graph graph = parse_module(jax_attention(""), "<test>");
  const std::vector<Attention> found = attentions_of(graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(roles(found[0]), "scores, values");
  EXPECT_TRUE(found[0].is_causal);
  EXPECT_TRUE(found[0].has_forward());
  EXPECT_FALSE(found[0].has_backward());
  EXPECT_EQ(share(found[0], AttentionRole::Scores), 0.5);
  EXPECT_EQ(found[0].reads.size(), 3u);   // queries, keys, values
  EXPECT_EQ(found[0].writes.size(), 1u);  // the output
  // All eleven values of the size of the scores that compute something, and four that repeat.
  EXPECT_GE(found[0].unwritten.size(), 11u);
}

TEST(Attention, EqualityOfPositionsIsNotCausal) {
  const std::vector<Attention> found =
      attentions_of(parse_module(jax_attention("", "EQ"), "<test>"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].is_causal);
  EXPECT_EQ(share(found[0], AttentionRole::Values), 1);
}

TEST(Attention, ProbabilitiesThatAreReturnedAreWritten) {
  EXPECT_TRUE(attentions_of(parse_module(jax_attention("%19"), "<test>")).empty());
}

TEST(Attention, TheSoftmaxOfALossIsNone) {
  const auto built = models::build_model("mlp?step=train");
  EXPECT_TRUE(attentions_of(built.graph).empty());
  const Graph graph = parse_module(
      R"(func.func @main(%x: tensor<4x8x16xf32>, %w: tensor<16x32xf32>) -> tensor<4x8x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<4x8x16xf32>, tensor<16x32xf32>) -> tensor<4x8x32xf32>
    %1 = stablehlo.exponential %0 : tensor<4x8x32xf32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [2] : (tensor<4x8x32xf32>, tensor<f32>) -> tensor<4x8xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x32xf32>
    %4 = stablehlo.divide %1, %3 : tensor<4x8x32xf32>
    %5 = stablehlo.dot_general %4, %w, contracting_dims = [2] x [1] : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
    return %5 : tensor<4x8x16xf32>
  })",
      "<test>");
  EXPECT_TRUE(attentions_of(graph).empty());
}

constexpr const char* kBoth =
    "scores, values, gradient of probabilities, gradient of queries, gradient of keys, gradient of "
    "values";

std::string sorted_roles(const Attention& attention) {
  std::vector<std::string> names;
  for (const AttentionProduct& product : attention.products) names.emplace_back(name(product.role));
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& each : names) text += (text.empty() ? "" : ", ") + each;
  return text;
}

// Keys, probabilities, queries, values: every product of the derivative.
constexpr const char* kDerivative =
    "gradient of keys, gradient of probabilities, gradient of queries, gradient of values, scores";

TEST(Attention, TrainStepsThatKeepProbabilities) {
  const auto built = models::build_model("gpt?layers=3&step=train&dtype=bf16");
  const std::vector<Attention> found = attentions_of(built.graph);
  ASSERT_EQ(found.size(), 3u);
  for (const Attention& each : found) {
    EXPECT_EQ(each.products.size(), 6u) << kBoth;
    EXPECT_TRUE(each.has_forward() && each.has_backward());
    EXPECT_TRUE(each.is_causal);
    // A kernel that writes no scores computes them twice.
    EXPECT_EQ(share(each, AttentionRole::Scores), 1);
    EXPECT_EQ(share(each, AttentionRole::GradKeys), 0.5);
    EXPECT_EQ(each.writes.size(), 4u);
  }
}

TEST(Attention, TrainStepsThatComputeScoresAgain) {
  const auto built = models::build_model("gpt?layers=3&step=train&attention=flash&dtype=bf16");
  const std::vector<Attention> found = attentions_of(built.graph);
  ASSERT_EQ(found.size(), 6u);
  size_t forward = 0;
  for (const Attention& each : found) {
    EXPECT_NE(each.has_forward(), each.has_backward());
    EXPECT_EQ(share(each, AttentionRole::Scores), 0.5);
    if (each.has_backward()) {
      EXPECT_EQ(sorted_roles(each), kDerivative);
    }
    forward += each.has_forward() ? 1 : 0;
  }
  EXPECT_EQ(forward, 3u);
}

TEST(Attention, WholeLayersAgainHaveTheForwardPartTwice) {
  for (const char* text : {"gpt?layers=2&step=train&attention=flash&remat=full",
                           "gpt?layers=2&step=train&attention=flash&remat=full&norm=layer&bias=yes&"
                           "feed_forward=gelu&positions=learned&tied=yes&kv_heads=8"}) {
    const std::vector<Attention> found = attentions_of(models::build_model(text).graph);
    ASSERT_EQ(found.size(), 6u) << text;
    EXPECT_EQ(std::count_if(found.begin(), found.end(),
                            [](const Attention& each) { return each.has_forward(); }),
              4)
        << text;
  }
}

TEST(Attention, WithoutAMaskEveryKeyIsSeen) {
  const auto built = models::build_model("encoder?step=grad");
  const std::vector<Attention> found = attentions_of(built.graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].is_causal);
  EXPECT_EQ(share(found[0], AttentionRole::Scores), 2);
}

}  // namespace
}  // namespace cleave::analyze
