// cholesky, triangular_solve, fft, batch_norm, custom calls and composites.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "module_harness.h"

namespace cleave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string unary(const std::string& op, const std::string& in, const std::string& out) {
  return "func.func @main(%a: tensor<" + in + ">) -> tensor<" + out + "> {\n  %0 = " + op +
         " : (tensor<" + in + ">) -> tensor<" + out + ">\n  return %0 : tensor<" + out + ">\n}";
}

TEST(LinalgOps, FftTypesAndComplaints) {
  auto fft = [](const std::string& type, const std::string& length, const std::string& in,
                const std::string& out) {
    return Module(
        unary("stablehlo.fft %a, type = " + type + ", length = [" + length + "]", in, out));
  };
  EXPECT_EQ(fft("RFFT", "6", "2x6xf32", "2x4xcomplex<f32>").complaint("stablehlo.fft"), "");
  EXPECT_EQ(fft("IRFFT", "6", "2x4xcomplex<f32>", "2x6xf32").complaint("stablehlo.fft"), "");
  EXPECT_THAT(fft("RFFT", "6", "2x6xf32", "2x4xcomplex<f32>").rule("stablehlo.fft"),
              HasSubstr("need_replication={j} blocked_propagation={j}"));
  EXPECT_THAT(fft("FFT", "6", "2x6xf32", "2x6xf32").complaint("stablehlo.fft"),
              HasSubstr("takes complex elements"));
  EXPECT_THAT(fft("RFFT", "5", "2x6xf32", "2x4xcomplex<f32>").complaint("stablehlo.fft"),
              HasSubstr("fft_length [5] must match"));
}

TEST(LinalgOps, CholeskyTakesSquareMatrices) {
  const Module good(unary("stablehlo.cholesky %a, lower = true", "2x2xf64", "2x2xf64"));
  EXPECT_EQ(good.complaint("stablehlo.cholesky"), "");
  EXPECT_THAT(values<double>(good.run({make<double>(DType::F64, {2, 2}, {4, 2, 2, 10})})[0]),
              ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(Module(unary("stablehlo.cholesky %a, lower = true", "2x3xf64", "2x3xf64"))
                  .complaint("stablehlo.cholesky"),
              HasSubstr("takes square matrices, got tensor<2x3xf64>"));
}

TEST(LinalgOps, TriangularSolveIsLinearInItsRightSide) {
  const Module m(R"(
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false,
    transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
})");
  EXPECT_EQ(m.complaint("stablehlo.triangular_solve"), "");
  EXPECT_EQ(m.partial("stablehlo.triangular_solve")[0],
            (PartialRow{ReduceOp::Sum, {false, true}, ReduceOp::Sum}));
  EXPECT_THAT(values<float>(m.run({make<float>(DType::F32, {2, 2}, {2, 99, 1, 4}),
                                   make<float>(DType::F32, {2, 1}, {4, 10})})[0]),
              ElementsAre(2, 2));
}

TEST(LinalgOps, BatchNormFeatures) {
  const Module m(R"(
func.func @main(%x: tensor<4x3xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>)
    -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {epsilon = 0.0 : f32, feature_index = 1 : i64}
    : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>
})");
  EXPECT_EQ(m.complaint("stablehlo.batch_norm_training"), "");
  EXPECT_THAT(m.rule("stablehlo.batch_norm_training"),
              HasSubstr("([i, j], [j], [j])->([i, j], [j], [j]) {i=4, j=3} need_replication={i}"));
}

TEST(LinalgOps, LapackCallsThatJaxEmits) {
  const Module m(R"(
func.func @main(%a: tensor<1x2x2xf64>) -> (tensor<1x2x2xf64>, tensor<1xi32>) {
  %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8},
    sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i]) {i=1, j=2, k=2, l=2, m=2}, custom>}
    : (tensor<1x2x2xf64>) -> (tensor<1x2x2xf64>, tensor<1xi32>)
  return %0#0, %0#1 : tensor<1x2x2xf64>, tensor<1xi32>
})");
  EXPECT_THAT(m.rule("stablehlo.custom_call"), HasSubstr("([i, j, k])->([i, l, m], [i])"));
  const std::vector<Array> out = m.run({make<double>(DType::F64, {1, 2, 2}, {4, 2, 2, 10})});
  EXPECT_THAT(values<double>(out[0]), ElementsAre(2, 2, 1, 3));  // LAPACK leaves the other triangle
  EXPECT_THAT(values<int32_t>(out[1]), ElementsAre(0));
}

std::string call(const std::string& target, const std::string& in, const std::string& out) {
  return "func.func @main(%a: tensor<" + in + ">) -> tensor<" + out +
         "> {\n  %0 = stablehlo.custom_call @" + target + "(%a) : (tensor<" + in + ">) -> tensor<" +
         out + ">\n  return %0 : tensor<" + out + ">\n}";
}

TEST(LinalgOps, CustomCallsByTarget) {
  const Module unknown(call("what_is_this", "4xf32", "4xf32"));
  EXPECT_TRUE(unknown.rule_of("stablehlo.custom_call").empty());
  EXPECT_THROW(unknown.run({make<float>(DType::F32, {4}, {1, 2, 3, 4})}), UserError);
  const Module placed(call("MoveToHost", "4xf32", "4xf32"));
  EXPECT_THAT(placed.rule("stablehlo.custom_call"), HasSubstr("([i])->([i]) {i=4}"));
  EXPECT_THAT(values<float>(placed.run({make<float>(DType::F32, {4}, {1, 2, 3, 4})})[0]),
              ElementsAre(1, 2, 3, 4));
  const Module high(call("X64SplitHigh", "1xui64", "1xui32"));
  EXPECT_THAT(values<uint32_t>(high.run({make<uint64_t>(DType::U64, {1}, {7ull << 32 | 5})})[0]),
              ElementsAre(7));
}

TEST(LinalgOps, CompositesRunTheirDecomposition) {
  const Module m(R"(
func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "my.twice" %a {decomposition = @twice} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
})");
  EXPECT_EQ(m.complaint("stablehlo.composite"), "");
  EXPECT_THAT(values<float>(m.run({make<float>(DType::F32, {2}, {1, 4})})[0]), ElementsAre(2, 8));
}

}  // namespace
}  // namespace cleave
