// Gather, scatter and pad as steps: the same bits as their kernels.
#include <gtest/gtest.h>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"

namespace cleave {
namespace {

void expect_identical(const std::string& text, size_t fallbacks, int64_t low, int64_t high) {
  const Graph graph = parse_module(text, "test");
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types) {
    args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)));
    if (type.dtype != DType::I32) continue;
    args.back() = args.back().copy();
    for (int64_t i = 0; i < args.back().num_elements(); ++i) {
      int32_t& index = args.back().data<int32_t>()[i];
      index = static_cast<int32_t>(low + (i * 7919 + 13) % (high - low));
    }
  }
  Executable executable(graph, "main");
  EXPECT_EQ(executable.stats().fallbacks, fallbacks);
  const std::vector<Array> expected = run_function(graph, "main", args);
  for (int run = 0; run < 2; ++run) {
    const std::vector<Array> results = executable.run(args);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(identical(results[i], expected[i]));
  }
}

TEST(WindowSteps, EmbeddingAndItsGradient) {
  for (const char* dtype : {"f32", "f64", "bf16", "f16", "i32"}) {
    std::string text = R"(
func.func @main(%t: tensor<11x6xD>, %i: tensor<4x5x1xi32>, %u: tensor<4x5x6xD>) -> (tensor<4x5x6xD>, tensor<11x6xD>, tensor<11x6xD>) {
  %0 = "stablehlo.gather"(%t, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 6>} : (tensor<11x6xD>, tensor<4x5x1xi32>) -> tensor<4x5x6xD>
  %1 = "stablehlo.scatter"(%t, %i, %u) ({
    ^bb0(%a: tensor<D>, %b: tensor<D>):
      %s = stablehlo.add %a, %b : tensor<D>
      stablehlo.return %s : tensor<D>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>} : (tensor<11x6xD>, tensor<4x5x1xi32>, tensor<4x5x6xD>) -> tensor<11x6xD>
  %2 = "stablehlo.scatter"(%t, %i, %u) ({
    ^bb0(%a: tensor<D>, %b: tensor<D>):
      stablehlo.return %b : tensor<D>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>} : (tensor<11x6xD>, tensor<4x5x1xi32>, tensor<4x5x6xD>) -> tensor<11x6xD>
  return %0, %1, %2 : tensor<4x5x6xD>, tensor<11x6xD>, tensor<11x6xD>
})";
    for (size_t at = 0; (at = text.find('D', at)) != std::string::npos; ++at)
      text.replace(at, 1, dtype);
    SCOPED_TRACE(dtype);
    // Some indices lie outside: a gather moves them in, a scatter leaves them out.
    expect_identical(text, 0, -2, 14);
  }
}

TEST(WindowSteps, BatchedIndices) {
  expect_identical(R"(
func.func @main(%x: tensor<3x7x5xf32>, %i: tensor<3x4x1xi32>, %u: tensor<3x4x5xf32>) -> (tensor<3x4x5xf32>, tensor<3x4x2xf32>, tensor<3x7x5xf32>) {
  %0 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 5>} : (tensor<3x7x5xf32>, tensor<3x4x1xi32>) -> tensor<3x4x5xf32>
  %t = stablehlo.transpose %x, dims = [0, 2, 1] : (tensor<3x7x5xf32>) -> tensor<3x5x7xf32>
  %1 = "stablehlo.gather"(%t, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>} : (tensor<3x5x7xf32>, tensor<3x4x1xi32>) -> tensor<3x4x2xf32>
  %2 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %b, %a : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>} : (tensor<3x7x5xf32>, tensor<3x4x1xi32>, tensor<3x4x5xf32>) -> tensor<3x7x5xf32>
  return %0, %1, %2 : tensor<3x4x5xf32>, tensor<3x4x2xf32>, tensor<3x7x5xf32>
})",
                   0, -1, 9);
}

// Windows that stick out are cut, and any operator combines.
TEST(WindowSteps, OfAnyWindowAndOperator) {
  expect_identical(R"(
func.func @main(%x: tensor<9x6xf32>, %i: tensor<4x1xi32>, %u: tensor<4x3x6xf32>) -> (tensor<9x6xf32>, tensor<4x3x6xf32>) {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<9x6xf32>, tensor<4x1xi32>, tensor<4x3x6xf32>) -> tensor<9x6xf32>
  %1 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 3, 6>} : (tensor<9x6xf32>, tensor<4x1xi32>) -> tensor<4x3x6xf32>
  return %0, %1 : tensor<9x6xf32>, tensor<4x3x6xf32>
})",
                   0, -3, 12);
  for (const char* op : {"maximum", "minimum", "multiply"}) {
    std::string text = R"(
func.func @main(%x: tensor<7x9xbf16>, %i: tensor<5x2xi32>, %u: tensor<3x5x2xbf16>) -> tensor<7x9xbf16> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = stablehlo.OP %a, %b : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 2], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1>} : (tensor<7x9xbf16>, tensor<5x2xi32>, tensor<3x5x2xbf16>) -> tensor<7x9xbf16>
  return %0 : tensor<7x9xbf16>
})";
    text.replace(text.find("OP"), 2, op);
    SCOPED_TRACE(op);
    expect_identical(text, 0, -2, 9);
  }
}

TEST(WindowSteps, Pads) {
  expect_identical(R"(
func.func @main(%x: tensor<3x4xf32>, %v: tensor<f32>) -> (tensor<6x11xf32>, tensor<4x3xf32>, tensor<5x6xf32>) {
  %0 = stablehlo.pad %x, %v, low = [1, 0], high = [2, 1], interior = [0, 2] : (tensor<3x4xf32>, tensor<f32>) -> tensor<6x11xf32>
  %1 = stablehlo.pad %x, %v, low = [0, -1], high = [1, 0], interior = [0, 0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4x3xf32>
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %2 = stablehlo.pad %t, %v, low = [1, 1], high = [0, 0], interior = [0, 1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<5x6xf32>
  return %0, %1, %2 : tensor<6x11xf32>, tensor<4x3xf32>, tensor<5x6xf32>
})",
                   0, 0, 1);
}

// Steps of products of every dtype.
TEST(DotSteps, OfEveryDtype) {
  for (const char* dtype :
       {"f32", "f64", "bf16", "f16", "i32", "i8", "complex<f32>", "complex<f64>"}) {
    std::string text = R"(
func.func @main(%q: tensor<2x6x3x8xD>, %k: tensor<2x5x3x8xD>, %w: tensor<3x8x7xD>) -> (tensor<2x3x6x5xD>, tensor<2x6x7xD>) {
  %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x6x3x8xD>, tensor<2x5x3x8xD>) -> tensor<2x3x6x5xD>
  %y = stablehlo.dot_general %q, %w, contracting_dims = [2, 3] x [0, 1] : (tensor<2x6x3x8xD>, tensor<3x8x7xD>) -> tensor<2x6x7xD>
  return %s, %y : tensor<2x3x6x5xD>, tensor<2x6x7xD>
})";
    for (size_t at = 0; (at = text.find("xD>", at)) != std::string::npos; ++at)
      text.replace(at, 3, std::string("x") + dtype + ">");
    SCOPED_TRACE(dtype);
    const Graph graph = parse_module(text, "test");
    std::vector<Array> args;
    for (const Type& type : graph.find_function("main")->arg_types)
      args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)));
    Executable executable(graph, "main");
    EXPECT_EQ(executable.stats().fallbacks, 0u);
    const std::vector<Array> expected = run_function(graph, "main", args);
    const std::vector<Array> results = executable.run(args);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Comparison comparison = compare(results[i], expected[i]);
      EXPECT_TRUE(comparison.same) << comparison.first;
    }
  }
}

TEST(WindowSteps, BitcastsOfBoolsAreOfBits) {
  expect_identical(R"(
func.func @main(%a: tensor<3x8xi1>, %b: tensor<5xi8>, %c: tensor<4x2xf32>) -> (tensor<3xi8>, tensor<5x8xi1>, tensor<4xf64>) {
  %0 = stablehlo.bitcast_convert %a : (tensor<3x8xi1>) -> tensor<3xi8>
  %1 = stablehlo.bitcast_convert %b : (tensor<5xi8>) -> tensor<5x8xi1>
  %2 = stablehlo.bitcast_convert %c : (tensor<4x2xf32>) -> tensor<4xf64>
  return %0, %1, %2 : tensor<3xi8>, tensor<5x8xi1>, tensor<4xf64>
})",
                   2, 0, 1);
}

}  // namespace
}  // namespace cleave
