// Convolutions, reductions of windows, sorts and the like as steps: the numbers of their kernels,
// without one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/gemm.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "tests/support/arguments.h"

namespace cleave {
namespace {

std::string with_dtype(std::string text, const std::string& dtype) {
  for (size_t at = 0; (at = text.find("xD>", at)) != std::string::npos; ++at)
    text.replace(at, 3, "x" + dtype + ">");
  for (size_t at = 0; (at = text.find("<D>", at)) != std::string::npos; ++at)
    text.replace(at, 3, "<" + dtype + ">");
  return text;
}

// Runs twice, with one thread and with three; gives the statistics of the latter.
CodeStats expect_same(const std::string& text, const std::vector<Array>* given = nullptr) {
  const Graph graph = parse_module(text, "test");
  const std::vector<Array> args = given ? *given : arguments(graph);
  const std::vector<Array> expected = run_function(graph, "main", args);
  CodeStats stats;
  for (int threads : {1, 3}) {
    Executable executable(graph, "main", {.threads = threads});
    stats = executable.stats();
    EXPECT_EQ(stats.fallbacks, 0u);
    for (int run = 0; run < 2; ++run) {
      const std::vector<Array> results = executable.run(args);
      for (size_t i = 0; i < expected.size(); ++i) {
        const Comparison comparison = compare(results[i], expected[i]);
        EXPECT_TRUE(comparison.same) << "result " << i << ": " << comparison.first;
      }
    }
  }
  return stats;
}

std::string convolution(const std::string& input, const std::string& kernel,
                        const std::string& result, const std::string& window,
                        const std::string& attributes) {
  return "func.func @main(%x: tensor<" + input + "xD>, %k: tensor<" + kernel + "xD>) -> tensor<" +
         result +
         "xD> {\n  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, "
         "o]->[b, 0, 1, f], window = {" +
         window + "} {" + attributes + "} : (tensor<" + input + "xD>, tensor<" + kernel +
         "xD>) -> tensor<" + result + "xD>\n  return %0 : tensor<" + result + "xD>\n}";
}

TEST(ConvolutionSteps, OfEveryForm) {
  const std::string one = "batch_group_count = 1 : i64, feature_group_count = 1 : i64";
  const struct {
    const char* name;
    std::string text;
  } cases[] = {
      {"same", convolution("6x9x8x5", "3x3x5x16", "6x9x8x16", "pad = [[1, 1], [1, 1]]", one)},
      {"strides", convolution("6x9x8x5", "3x3x5x16", "6x4x3x16", "stride = [2, 2]", one)},
      {"dilated kernel",
       convolution("6x9x8x5", "3x3x5x16", "6x5x4x16", "rhs_dilate = [2, 2]", one)},
      {"dilated input, as in a gradient",
       convolution("6x5x4x5", "3x3x5x16", "6x9x7x16", "pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]",
                   one)},
      {"cropped", convolution("6x9x8x5", "3x3x5x16", "6x5x6x16", "pad = [[-1, -1], [0, 0]]", one)},
      {"mirrored", convolution("6x9x8x5", "3x3x5x16", "6x7x6x16", "reverse = [true, true]", one)},
      {"groups", convolution("6x9x8x6", "3x3x2x12", "6x7x6x12", "stride = [1, 1]",
                             "batch_group_count = 1 : i64, feature_group_count = 3 : i64")},
      {"batch groups", convolution("6x9x8x5", "3x3x5x16", "3x7x6x16", "stride = [1, 1]",
                                   "batch_group_count = 2 : i64, feature_group_count = 1 : i64")},
      {"tiny", convolution("1x3x3x2", "2x2x2x3", "1x2x2x3", "stride = [1, 1]", one)},
  };
  for (const auto& each : cases)
    for (const char* dtype : {"f32", "bf16", "f64", "i32"}) {
      SCOPED_TRACE(std::string(each.name) + " of " + dtype);
      EXPECT_EQ(expect_same(with_dtype(each.text, dtype)).convolutions, 1u);
    }
}

// A bias, a scale by feature and activations go into the call of oneDNN; clips keep NaNs.
TEST(ConvolutionSteps, TakeWhatFollows) {
  const std::string head = R"(
func.func @main(%x: tensor<4x9x8x5xD>, %k: tensor<3x3x5x16xD>, %b: tensor<16xD>, %s: tensor<16xD>) -> tensor<4x7x6x16xD> {
  %v = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x9x8x5xD>, tensor<3x3x5x16xD>) -> tensor<4x7x6x16xD>
  %bb = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<16xD>) -> tensor<4x7x6x16xD>
  %ss = stablehlo.broadcast_in_dim %s, dims = [3] : (tensor<16xD>) -> tensor<4x7x6x16xD>
  %z = stablehlo.constant dense<0.0> : tensor<4x7x6x16xD>
  %six = stablehlo.constant dense<6.0> : tensor<4x7x6x16xD>
)";
  const std::string t = " : tensor<4x7x6x16xD>\n";
  const struct {
    const char* name;
    std::string body;
    size_t ops;
  } cases[] = {
      {"bias and relu", "%a = stablehlo.add %v, %bb" + t + "%y = stablehlo.maximum %a, %z" + t, 2},
      {"norm of inference, relu6",
       "%a = stablehlo.multiply %v, %ss" + t + "%c = stablehlo.add %a, %bb" + t +
           "%d = stablehlo.maximum %c, %z" + t + "%y = stablehlo.minimum %d, %six" + t,
       4},
      {"bias and silu",
       "%a = stablehlo.add %v, %bb" + t + "%l = stablehlo.logistic %a" + t +
           "%y = stablehlo.multiply %a, %l" + t,
       3},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.name);
    const std::string text = head + each.body + "  return %y : tensor<4x7x6x16xD>\n}";
    const CodeStats stats = expect_same(with_dtype(text, "f32"));
    EXPECT_EQ(stats.epilogues, 1u);
    EXPECT_EQ(stats.epilogue_ops, each.ops);
    EXPECT_EQ(stats.fusions, 0u);
    if (has_bf16_gemm() && std::string(each.name) == "bias and relu") {
      EXPECT_EQ(expect_same(with_dtype(text, "bf16")).epilogues, 1u);
    }
  }
  const Graph graph = parse_module(
      with_dtype(head + cases[0].body + "  return %y : tensor<4x7x6x16xD>\n}", "f32"), "test");
  std::vector<Array> args = arguments(graph);
  args[0] = args[0].copy();
  args[0].data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  const Array result = Executable(graph, "main").run(args)[0];
  int64_t nans = 0;
  for (int64_t i = 0; i < result.num_elements(); ++i) nans += std::isnan(result.data<float>()[i]);
  EXPECT_GT(nans, 0);
}

TEST(WindowReductions, OfEveryKind) {
  for (const char* dtype : {"f32", "bf16", "f16", "f64", "i32"}) {
    SCOPED_TRACE(dtype);
    const bool whole = std::string(dtype) == "i32";
    std::string text = R"(
func.func @main(%x: tensor<4x12x10x3xD>, %u: tensor<4x6x5x3xD>) -> (tensor<4x6x5x3xD>, tensor<4x12x10x3xD>, tensor<4x12x10x3xD>, tensor<4x3xD>) {
  %i = stablehlo.constant dense<INIT> : tensor<D>
  %max = "stablehlo.reduce_window"(%x, %i) ({
    ^bb0(%a: tensor<D>, %b: tensor<D>):
      %m = stablehlo.maximum %a, %b : tensor<D>
      stablehlo.return %m : tensor<D>
  }) {window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>} : (tensor<4x12x10x3xD>, tensor<D>) -> tensor<4x6x5x3xD>
  %sum = "stablehlo.reduce_window"(%x, %i) ({
    ^bb0(%a: tensor<D>, %b: tensor<D>):
      %m = stablehlo.add %a, %b : tensor<D>
      stablehlo.return %m : tensor<D>
  }) {window_dimensions = array<i64: 1, 12, 1, 1>, padding = dense<[[0, 0], [11, 0], [0, 0], [0, 0]]> : tensor<4x2xi64>} : (tensor<4x12x10x3xD>, tensor<D>) -> tensor<4x12x10x3xD>
  %back = "stablehlo.select_and_scatter"(%x, %u, %i) ({
    ^bb0(%a: tensor<D>, %b: tensor<D>):
      %c = stablehlo.compare GE, %a, %b : (tensor<D>, tensor<D>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }, {
    ^bb0(%a: tensor<D>, %b: tensor<D>):
      %s = stablehlo.add %a, %b : tensor<D>
      stablehlo.return %s : tensor<D>
  }) {window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>} : (tensor<4x12x10x3xD>, tensor<4x6x5x3xD>, tensor<D>) -> tensor<4x12x10x3xD>
  %mean = "stablehlo.reduce"(%x, %i) ({
    ^bb0(%a: tensor<D>, %b: tensor<D>):
      %m = stablehlo.add %a, %b : tensor<D>
      stablehlo.return %m : tensor<D>
  }) {dimensions = array<i64: 1, 2>} : (tensor<4x12x10x3xD>, tensor<D>) -> tensor<4x3xD>
  return %max, %sum, %back, %mean : tensor<4x6x5x3xD>, tensor<4x12x10x3xD>, tensor<4x12x10x3xD>, tensor<4x3xD>
})";
    text.replace(text.find("INIT"), 4, whole ? "0" : "0.0");
    expect_same(with_dtype(text, dtype));
  }
}

// A body of several ops: the place of the greatest element.
TEST(WindowReductions, ByAnyBody) {
  for (const char* dim : {"0", "1", "2"}) {
    SCOPED_TRACE(dim);
    std::string text = R"(
func.func @main(%x: tensor<5x7x6xf32>) -> (tensor<RESULTxf32>, tensor<RESULTxi32>) {
  %i = stablehlo.iota dim = DIM : tensor<5x7x6xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = "stablehlo.reduce"(%x, %i, %low, %zero) ({
    ^bb0(%a: tensor<f32>, %ai: tensor<i32>, %b: tensor<f32>, %bi: tensor<i32>):
      %gt = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %eq = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %lt = stablehlo.compare LT, %ai, %bi : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %first = stablehlo.and %eq, %lt : tensor<i1>
      %keep = stablehlo.or %gt, %first : tensor<i1>
      %v = stablehlo.select %keep, %a, %b : tensor<i1>, tensor<f32>
      %j = stablehlo.select %keep, %ai, %bi : tensor<i1>, tensor<i32>
      stablehlo.return %v, %j : tensor<f32>, tensor<i32>
  }) {dimensions = array<i64: DIM>} : (tensor<5x7x6xf32>, tensor<5x7x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<RESULTxf32>, tensor<RESULTxi32>)
  return %0#0, %0#1 : tensor<RESULTxf32>, tensor<RESULTxi32>
})";
    const char* results[] = {"7x6", "5x6", "5x7"};
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"RESULT", results[dim[0] - '0']}, {"DIM", dim}})
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;)
        text.replace(at, from.size(), to);
    expect_same(text);
  }
}

TEST(SortSteps, AlongEveryDimension) {
  for (const char* dim : {"0", "1", "2"})
    for (const char* dtype : {"f32", "bf16", "i32"}) {
      SCOPED_TRACE(std::string(dtype) + " along " + dim);
      std::string text = R"(
func.func @main(%x: tensor<5x33x7xD>, %v: tensor<5x33x7xf32>) -> (tensor<5x33x7xD>, tensor<5x33x7xf32>) {
  %0:2 = "stablehlo.sort"(%x, %v) ({
    ^bb0(%a: tensor<D>, %b: tensor<D>, %c: tensor<f32>, %d: tensor<f32>):
      %lt = stablehlo.compare LT, %a, %b : (tensor<D>, tensor<D>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
  }) {dimension = DIM : i64, is_stable = true} : (tensor<5x33x7xD>, tensor<5x33x7xf32>) -> (tensor<5x33x7xD>, tensor<5x33x7xf32>)
  return %0#0, %0#1 : tensor<5x33x7xD>, tensor<5x33x7xf32>
})";
      text.replace(text.find("DIM"), 3, dim);
      text = with_dtype(text, dtype);
      expect_same(text);
      if (std::string(dtype) != "f32") continue;
      // A NaN has no place in this order: the op's kernel finds one.
      std::vector<Array> args = arguments(parse_module(text, "test"));
      args[0] = args[0].copy();
      args[0].data<float>()[40] = std::numeric_limits<float>::quiet_NaN();
      expect_same(text, &args);
    }
}

TEST(LinalgSteps, OnPackedMatrices) {
  for (const char* dtype : {"f32", "f64"}) {
    SCOPED_TRACE(dtype);
    expect_same(with_dtype(R"(
func.func @main(%x: tensor<3x20x20xD>, %b: tensor<3x20x4xD>, %s: tensor<6x30xD>) -> (tensor<3x20x20xD>, tensor<3x20x4xD>, tensor<6x30xD>) {
  %p = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<3x20x20xD>, tensor<3x20x20xD>) -> tensor<3x20x20xD>
  %ten = stablehlo.constant dense<10.0> : tensor<3x20x20xD>
  %i = stablehlo.iota dim = 1 : tensor<3x20x20xi32>
  %j = stablehlo.iota dim = 2 : tensor<3x20x20xi32>
  %eq = stablehlo.compare EQ, %i, %j : (tensor<3x20x20xi32>, tensor<3x20x20xi32>) -> tensor<3x20x20xi1>
  %zero = stablehlo.constant dense<0.0> : tensor<3x20x20xD>
  %d = stablehlo.select %eq, %ten, %zero : tensor<3x20x20xi1>, tensor<3x20x20xD>
  %q = stablehlo.add %p, %d : tensor<3x20x20xD>
  %l = "stablehlo.cholesky"(%q) {lower = true} : (tensor<3x20x20xD>) -> tensor<3x20x20xD>
  %y = "stablehlo.triangular_solve"(%l, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<3x20x20xD>, tensor<3x20x4xD>) -> tensor<3x20x4xD>
  %f = stablehlo.fft %s, type = RFFT, length = [30] : (tensor<6x30xD>) -> tensor<6x16xcomplex<D>>
  %r = stablehlo.fft %f, type = IRFFT, length = [30] : (tensor<6x16xcomplex<D>>) -> tensor<6x30xD>
  return %l, %y, %r : tensor<3x20x20xD>, tensor<3x20x4xD>, tensor<6x30xD>
})",
                           dtype));
  }
}

}  // namespace
}  // namespace cleave
