#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/runtime/interpreter.h"
#include "tests/support/error_of.h"

// What types cannot say is checked before a kernel or a library sees it: sizes that are operands,
// and custom calls.
namespace cleave {
namespace {

using testing::HasSubstr;

// What a function without arguments says when it is run.
std::string error_of_run(const std::string& results, const std::string& body) {
  return error_of([&] {
    run_function(parse_module("func.func @main() -> (" + results + ") {\n" + body + "\n}"), "main",
                 {});
  });
}

TEST(CheckedOperands, ComputedSizesAreThoseThatAreDeclared) {
  EXPECT_THAT(error_of_run("tensor<4xf32>", R"(
  %s = stablehlo.constant dense<8> : tensor<1xi32>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>)"),
              HasSubstr("the sizes are [8], and tensor<4xf32> is declared"));
  EXPECT_THAT(error_of_run("tensor<?xf32>", R"(
  %s = stablehlo.constant dense<-8> : tensor<1xi32>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>)"),
              HasSubstr("the size -8 is negative"));
  EXPECT_THAT(error_of_run("tensor<?x?xf32>", R"(
  %x = stablehlo.constant dense<1.0> : tensor<6xf32>
  %s = stablehlo.constant dense<[-2, -3]> : tensor<2xi32>
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>)"),
              HasSubstr("the size -2 is negative"));
  EXPECT_THAT(error_of_run("tensor<?xf32>", R"(
  %x = stablehlo.constant dense<1.0> : tensor<4xf32>
  %v = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<0> : tensor<1xi64>
  %i = stablehlo.constant dense<9223372036854775807> : tensor<1xi64>
  %0 = stablehlo.dynamic_pad %x, %v, %n, %n, %i : (tensor<4xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>)"),
              HasSubstr("is out of range"));
}

TEST(CheckedOperands, OpsOnDynamicSizesAreCheckedOnceTheyAreKnown) {
  const std::string reshaped = R"(
  %x = stablehlo.constant dense<1.0> : tensor<4xf32>
  %s = stablehlo.constant dense<4> : tensor<1xi32>
  %d = stablehlo.dynamic_reshape %x, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
)";
  EXPECT_THAT(error_of_run("tensor<9xf32>", reshaped + R"(
  %0 = stablehlo.slice %d [3:12] : (tensor<?xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>)"),
              HasSubstr("[3:12:1] does not fit dimension 0 of tensor<4xf32>"));
  EXPECT_THAT(error_of_run("tensor<5xf32>", reshaped + R"(
  %y = stablehlo.constant dense<1.0> : tensor<5xf32>
  %0 = stablehlo.add %d, %y : (tensor<?xf32>, tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>)"),
              HasSubstr("operands must have one type"));
}

TEST(CheckedOperands, LinearAlgebraGetsMatricesThatFit) {
  const auto call = [](const std::string& target, const std::string& config,
                       const std::string& operands, const std::string& types,
                       const std::string& results) {
    return error_of_run("tensor<f32>", R"(
  %v = stablehlo.constant dense<1.0> : tensor<4xf32>
  %m = stablehlo.constant dense<1.0> : tensor<4x3xf32>
  %q = stablehlo.constant dense<1.0> : tensor<4x4xf32>
  %r = stablehlo.constant dense<1.0> : tensor<f32>
  %0:2 = stablehlo.custom_call @)" + target +
                                           "(" + operands + ") {mhlo.backend_config = {" + config +
                                           "}} : (" + types + ") -> (" + results +
                                           ")\n  return %r : tensor<f32>");
  };
  EXPECT_THAT(call("lapack_spotrf_ffi", "uplo = 76 : ui8", "%m", "tensor<4x3xf32>",
                   "tensor<4x3xf32>, tensor<i32>"),
              HasSubstr("needs square matrices, not tensor<4x3xf32>"));
  EXPECT_THAT(call("lapack_spotrf_ffi", "uplo = 1 : ui8", "%q", "tensor<4x4xf32>",
                   "tensor<4x4xf32>, tensor<i32>"),
              HasSubstr("'uplo' is 1, and none of LU"));
  EXPECT_THAT(call("lapack_sgeqrf_ffi", "", "%v", "tensor<4xf32>", "tensor<4xf32>, tensor<4xf32>"),
              HasSubstr("2 dimensions after the batch are needed"));
  EXPECT_THAT(
      call("lapack_sorgqr_ffi", "", "%m", "tensor<4x3xf32>", "tensor<4x3xf32>, tensor<4xf32>"),
      HasSubstr("takes 2 operands and gives 1 results, not 1 and 2"));
  EXPECT_THAT(
      call("lapack_sgeqrf_ffi", "", "%m", "tensor<4x3xf32>", "tensor<9x9xf32>, tensor<3xf32>"),
      HasSubstr("result 0 is tensor<4x3xf32>, and tensor<9x9xf32> was declared"));
}

}  // namespace
}  // namespace cleave
