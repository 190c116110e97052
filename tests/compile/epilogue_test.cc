// What follows a matrix product becomes part of it: recognised, used, and the same numbers.
#include "cleave/compile/epilogue.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/gemm.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "tests/support/arguments.h"

namespace cleave {
namespace {

struct Case {
  std::string name, body;
  size_t ops;  // that become part of the product
};

// %v is the product, %y what is returned.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"bias", "%y = stablehlo.add %v, %bb : T", 1},
      {"scale", "%c = stablehlo.constant dense<0.125> : T\n%y = stablehlo.multiply %v, %c : T", 1},
      {"residual", "%y = stablehlo.add %r, %v : T", 1},
      {"bias and relu",
       "%z = stablehlo.constant dense<0.0> : T\n%s = stablehlo.add %bb, %v : T\n"
       "%y = stablehlo.maximum %s, %z : T",
       2},
      {"gelu with tanh, and a residual",
       R"(%a = stablehlo.constant dense<0.044715> : T
%b1 = stablehlo.constant dense<0.797884583> : T
%h = stablehlo.constant dense<0.5> : T
%one = stablehlo.constant dense<1.0> : T
%s = stablehlo.add %v, %bb : T
%s2 = stablehlo.multiply %s, %s : T
%s3 = stablehlo.multiply %s2, %s : T
%t0 = stablehlo.multiply %a, %s3 : T
%t1 = stablehlo.add %s, %t0 : T
%t2 = stablehlo.multiply %b1, %t1 : T
%t3 = stablehlo.tanh %t2 : T
%t4 = stablehlo.add %one, %t3 : T
%t5 = stablehlo.multiply %h, %t4 : T
%g = stablehlo.multiply %s, %t5 : T
%y = stablehlo.add %g, %r : T)",
       11},
      {"gelu with erf",
       R"(%q = stablehlo.constant dense<0.707106769> : T
%h = stablehlo.constant dense<0.5> : T
%one = stablehlo.constant dense<1.0> : T
%t1 = stablehlo.multiply %v, %q : T
%t2 = chlo.erf %t1 : T -> T
%t3 = stablehlo.add %t2, %one : T
%t4 = stablehlo.multiply %v, %h : T
%y = stablehlo.multiply %t4, %t3 : T)",
       5},
      {"silu", "%l = stablehlo.logistic %v : T\n%y = stablehlo.multiply %v, %l : T", 2},
      {"tanh of a difference", "%d = stablehlo.subtract %v, %r : T\n%y = stablehlo.tanh %d : T", 2},
      {"by column", "%d = stablehlo.multiply %v, %bb : T\n%y = stablehlo.subtract %d, %r : T", 2},
  };
  return all;
}

std::string module_of(const std::string& body, const std::string& dtype) {
  std::string text = R"(
func.func @main(%x: tensor<6x20x40xD>, %w: tensor<40x72xD>, %b: tensor<72xD>, %r: T) -> T {
  %v = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<6x20x40xD>, tensor<40x72xD>) -> T
  %bb = stablehlo.broadcast_in_dim %b, dims = [2] : (tensor<72xD>) -> T
)" + body + "\n  return %y : T\n}";
  auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace(": T", ": tensor<6x20x72xD>");
  replace("-> T", "-> tensor<6x20x72xD>");
  replace("xD>", "x" + dtype + ">");
  return text;
}

double largest_difference(const Array& a, const Array& b) {
  const Array x = convert(a, DType::F64).contiguous(), y = convert(b, DType::F64).contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const double error =
        std::abs(x.data<double>()[i] - y.data<double>()[i]) / (1 + std::abs(y.data<double>()[i]));
    largest = std::max(largest, std::isnan(error) ? INFINITY : error);
  }
  return largest;
}

TEST(Epilogue, IsPartOfTheProduct) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const Graph graph = parse_module(module_of(each.body, "f32"), "test");
    const std::vector<Array> args = arguments(graph);
    const Array expected = run_function(graph, "main", args)[0];
    for (int threads : {1, 3}) {
      Executable executable(graph, "main", {.threads = threads});
      EXPECT_EQ(executable.stats().epilogues, 1u);
      EXPECT_EQ(executable.stats().epilogue_ops, each.ops);
      EXPECT_EQ(executable.stats().fusions, 0u);
      EXPECT_EQ(executable.stats().steps, 1u);
      EXPECT_LT(largest_difference(executable.run(args)[0], expected), 3e-6);
    }
    // Switched off, it is a pass of its own.
    Executable apart(graph, "main", {.passes = "cleave-simplify,cleave-fuse"});
    EXPECT_EQ(apart.stats().epilogues, 0u);
    EXPECT_EQ(apart.stats().steps, 2u);
    EXPECT_LT(largest_difference(apart.run(args)[0], expected), 3e-6);
  }
}

// 16 bits: rounded once, after the last op, rather than after each.
TEST(Epilogue, OfSixteenBits) {
  for (const char* dtype : {"bf16", "f16"})
    for (const Case& each : cases()) {
      SCOPED_TRACE(each.name + " of " + dtype);
      const Graph graph = parse_module(module_of(each.body, dtype), "test");
      const std::vector<Array> args = arguments(graph);
      std::vector<Array> wide;
      for (const Array& arg : args) wide.push_back(convert(arg, DType::F32));
      const Graph exact = parse_module(module_of(each.body, "f32"), "test");
      const Array expected = run_function(exact, "main", wide)[0];
      Executable executable(graph, "main");
      const bool native = std::string(dtype) == "bf16" && has_bf16_gemm();
      EXPECT_EQ(executable.stats().epilogues, native ? 1u : 0u);
      EXPECT_EQ(executable.stats().fallbacks, 0u);
      EXPECT_LT(largest_difference(executable.run(args)[0], expected), native ? 8e-3 : 4e-2);
    }
}

TEST(Epilogue, IsPrinted) {
  Graph graph = parse_module(module_of(cases()[3].body, "f32"), "test");
  ASSERT_TRUE(fuse_epilogues(graph));
  const std::string text = print_module(graph);
  const size_t fusion = text.find("\"cleave.fusion\"");
  ASSERT_NE(fusion, std::string::npos) << text;
  EXPECT_GT(text.find("stablehlo.dot_general"), fusion);
  EXPECT_GT(text.find("stablehlo.maximum"), fusion);
  const Graph again = parse_module(text, "printed");
  EXPECT_EQ(print_module(again), text);
}

// The value between is read elsewhere: it has to be written anyway.
TEST(Epilogue, StopsWhereSomebodyElseReads) {
  const Graph graph = parse_module(R"(
func.func @main(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %c = stablehlo.constant dense<0.5> : tensor<32x32xf32>
  %v = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %s = stablehlo.multiply %v, %c : tensor<32x32xf32>
  %l = stablehlo.logistic %s : tensor<32x32xf32>
  %y = stablehlo.multiply %s, %l : tensor<32x32xf32>
  return %s, %y : tensor<32x32xf32>, tensor<32x32xf32>
})",
                                   "test");
  const std::vector<Array> args = arguments(graph);
  Executable executable(graph, "main");
  EXPECT_EQ(executable.stats().epilogue_ops, 1u);
  EXPECT_EQ(executable.stats().fusions, 1u);
  const std::vector<Array> expected = run_function(graph, "main", args), got = executable.run(args);
  for (size_t i : {0, 1}) EXPECT_LT(largest_difference(got[i], expected[i]), 3e-6);
}

// What is not a number stays so, and large numbers do not become such.
TEST(Epilogue, KeepsNaNsAndInfinities) {
  for (size_t c : {3, 4, 5, 6, 7}) {
    SCOPED_TRACE(cases()[c].name);
    const Graph graph = parse_module(module_of(cases()[c].body, "f32"), "test");
    std::vector<Array> args = arguments(graph);
    args[0] = args[0].copy();
    float* x = args[0].data<float>();
    x[0] = NAN;                                 // the first row
    for (int i = 40; i < 80; ++i) x[i] = 3e4f;  // large
    for (int i = 80; i < 120; ++i) x[i] = -3e4f;
    const Array expected = run_function(graph, "main", args)[0];
    Executable executable(graph, "main");
    ASSERT_EQ(executable.stats().epilogues, 1u);
    const Array got = executable.run(args)[0];
    const float *a = got.data<float>(), *b = expected.data<float>();
    for (int i = 0; i < 4 * 72; ++i)
      EXPECT_TRUE(std::isnan(b[i]) ? std::isnan(a[i])
                                   : std::abs(a[i] - b[i]) <= 1e-5 * (1 + std::abs(b[i])))
          << i << ": " << a[i] << " for " << b[i];
  }
}

}  // namespace
}  // namespace cleave
