// Sums in compiled programs: as close to those in double as the kernels' own.
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {
namespace {

constexpr double kError = 2.5e-7;

// The results of @main with ones as arguments, compiled and op by op, as float32.
struct Both {
  std::vector<Array> compiled, op_by_op;
};
Both run(const std::string& text) {
  const Graph graph = parse_module(text, "test");
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types)
    args.push_back(make_array(type, "ones"));
  Executable executable(graph, "main");
  EXPECT_TRUE(executable.is_compiled());
  Both both{executable.run(args), run_function(graph, "main", args)};
  for (auto* results : {&both.compiled, &both.op_by_op})
    for (Array& result : *results) result = convert(result, DType::F32).contiguous();
  return both;
}

void expect_all(const Both& both, size_t result, double expected, double error = kError) {
  for (const auto* results : {&both.compiled, &both.op_by_op}) {
    const Array& sums = (*results)[result];
    for (int64_t i = 0; i < sums.num_elements(); ++i)
      ASSERT_LT(std::abs(sums.data<float>()[i] - expected) / expected, error)
          << "result " << result << "[" << i << "], compiled: " << (results == &both.compiled);
  }
}

const double kTenth = static_cast<double>(0.1f);

TEST(CompiledSums, OfEverythingInAFusedLoop) {
  const Both both = run(R"(
func.func @main(%x: tensor<1000003xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %tenth = stablehlo.constant dense<0.1> : tensor<1000003xf32>
  %0 = stablehlo.multiply %x, %tenth : tensor<1000003xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1000003xf32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
})");
  expect_all(both, 0, 1'000'003 * kTenth);
}

TEST(CompiledSums, OfColumnsInAFusedLoop) {
  const Both both = run(R"(
func.func @main(%x: tensor<200000x7xf32>, %y: tensor<300x1500xf32>) -> (tensor<7xf32>, tensor<1500xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.constant dense<0.1> : tensor<200000x7xf32>
  %b = stablehlo.constant dense<0.1> : tensor<300x1500xf32>
  %0 = stablehlo.multiply %x, %a : tensor<200000x7xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<200000x7xf32>, tensor<f32>) -> tensor<7xf32>
  %2 = stablehlo.multiply %y, %b : tensor<300x1500xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<300x1500xf32>, tensor<f32>) -> tensor<1500xf32>
  return %1, %3 : tensor<7xf32>, tensor<1500xf32>
})");
  expect_all(both, 0, 200'000 * kTenth);
  expect_all(both, 1, 300 * kTenth);
}

TEST(CompiledSums, OfRowsAndOfComplexNumbersAndOfHalfPrecision) {
  const Both both = run(R"(
func.func @main(%x: tensor<8x100000xf32>, %h: tensor<60000x3xbf16>, %z: tensor<100000x2xf32>) -> (tensor<8xf32>, tensor<3xbf16>, tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %hzero = stablehlo.constant dense<0.0> : tensor<bf16>
  %czero = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %a = stablehlo.constant dense<0.1> : tensor<8x100000xf32>
  %half = stablehlo.constant dense<0.5> : tensor<60000x3xbf16>
  %c = stablehlo.constant dense<0.1> : tensor<100000x2xf32>
  %0 = stablehlo.multiply %x, %a : tensor<8x100000xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x100000xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.multiply %h, %half : tensor<60000x3xbf16>
  %3 = stablehlo.reduce(%2 init: %hzero) applies stablehlo.add across dimensions = [0] : (tensor<60000x3xbf16>, tensor<bf16>) -> tensor<3xbf16>
  %4 = stablehlo.multiply %z, %c : tensor<100000x2xf32>
  %5 = stablehlo.complex %z, %4 : tensor<100000x2xcomplex<f32>>
  %6 = stablehlo.reduce(%5 init: %czero) applies stablehlo.add across dimensions = [0] : (tensor<100000x2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<2xcomplex<f32>>
  %7 = stablehlo.real %6 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %8 = stablehlo.imag %6 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  return %1, %3, %7, %8 : tensor<8xf32>, tensor<3xbf16>, tensor<2xf32>, tensor<2xf32>
})");
  expect_all(both, 0, 100'000 * kTenth);
  expect_all(both, 1, 30'000, 0.004);
  expect_all(both, 2, 100'000);
  expect_all(both, 3, 100'000 * kTenth);
}

TEST(CompiledSums, OfNothingAndOfNegativeZeros) {
  const Both both = run(R"(
func.func @main(%x: tensor<0x3xf32>, %y: tensor<70x3xf32>) -> (tensor<3xf32>, tensor<f32>, tensor<3xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.constant dense<-0.0> : tensor<70x3xf32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = stablehlo.multiply %y, %a : tensor<70x3xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<70x3xf32>, tensor<f32>) -> tensor<f32>
  %3 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<70x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0, %2, %3 : tensor<3xf32>, tensor<f32>, tensor<3xf32>
})");
  for (const auto* results : {&both.compiled, &both.op_by_op})
    for (const Array& result : *results)
      for (int64_t i = 0; i < result.num_elements(); ++i) {
        EXPECT_EQ(result.data<float>()[i], 0);
        EXPECT_FALSE(std::signbit(result.data<float>()[i]));
      }
}

}  // namespace
}  // namespace cleave
