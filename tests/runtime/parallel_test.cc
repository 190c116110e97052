#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;

std::vector<int64_t> ints(const Array& array) {
  const Array packed = array.contiguous();
  return {packed.data<int64_t>(), packed.data<int64_t>() + packed.num_elements()};
}

std::string failure(const std::string& text) {
  return error_of<std::exception>([&] { run_function(parse_module(text), "main", {}); });
}

// Two devices: each gathers the numbers of all, sums them in a loop, and passes its sum on.
TEST(RunParallel, CollectivesInsideLoops) {
  const Graph graph = parse_module(R"(
func.func @device(%x: tensor<1xi64>) -> tensor<1xi64> {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %three = stablehlo.constant dense<3> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %r:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i64>, tensor<1xi64>
  cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%acc) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %t = stablehlo.add %a, %b : tensor<i64>
      stablehlo.return %t : tensor<i64>
    }) : (tensor<1xi64>) -> tensor<1xi64>
    %n = stablehlo.add %i, %one : tensor<i64>
    stablehlo.return %n, %s : tensor<i64>, tensor<1xi64>
  }
  return %r#1 : tensor<1xi64>
}
func.func @main() -> (tensor<1xi64>, tensor<1xi64>) {
  %0 = stablehlo.constant dense<1> : tensor<1xi64>
  %1 = stablehlo.constant dense<2> : tensor<1xi64>
  %2:2 = "interpreter.run_parallel"(%0, %1) {programs = [[@device], [@device]]}
      : (tensor<1xi64>, tensor<1xi64>) -> (tensor<1xi64>, tensor<1xi64>)
  return %2#0, %2#1 : tensor<1xi64>, tensor<1xi64>
})");
  const auto results = run_function(graph, "main", {});
  EXPECT_EQ(ints(results[0]), (std::vector<int64_t>{12}));
  EXPECT_EQ(ints(results[1]), (std::vector<int64_t>{12}));
}

// One device asks for a collective that the other does not take part in.
TEST(RunParallel, ADeviceThatIsLeftAloneSaysSo) {
  EXPECT_THAT(failure(R"(
func.func @meets(%x: tensor<1xi64>) -> tensor<2xi64> {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64,
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<1xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}
func.func @leaves(%x: tensor<1xi64>) -> tensor<1xi64> {
  return %x : tensor<1xi64>
}
func.func @main() -> (tensor<2xi64>, tensor<1xi64>) {
  %0 = stablehlo.constant dense<1> : tensor<1xi64>
  %1:2 = "interpreter.run_parallel"(%0, %0) {programs = [[@meets], [@leaves]]}
      : (tensor<1xi64>, tensor<1xi64>) -> (tensor<2xi64>, tensor<1xi64>)
  return %1#0, %1#1 : tensor<2xi64>, tensor<1xi64>
})"),
              HasSubstr("device 0 waits in stablehlo.all_gather: device 1 has ended"));
}

TEST(Check, NamesTheFirstElement) {
  EXPECT_EQ(failure(R"(
func.func @main() {
  %0 = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  check.expect_eq_const %0, dense<[[1, 2], [5, 4]]> : tensor<2x2xi64>
  return
})"),
            "check.expect_eq_const: element [1, 0] is 3, expected 5");
  EXPECT_EQ(failure(R"(
func.func @main() {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.constant dense<1.000001> : tensor<f32>
  check.expect_close %0, %1, max_ulp_difference = 3 : tensor<f32>, tensor<f32>
  return
})"),
            "check.expect_close: element [] is 1.000000e+00, expected 1.000001e+00 "
            "(8 units in the last place apart, 0 to 3 allowed)");
  EXPECT_THAT(failure(R"(
func.func @main() {
  %0 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
  %1 = stablehlo.constant dense<1.0> : tensor<f32>
  check.expect_almost_eq %0, %0 : tensor<f32>
  check.expect_almost_eq %0, %1, tolerance = 0.1 : tensor<f32>
  return
})"),
              HasSubstr("element [] is nan, expected 1.000000e+00 (tolerance 0.1)"));
}

// A manual computation cuts its operands, runs on every device and puts the results together.
TEST(ManualComputation, RunsOncePerDevice) {
  const Graph graph = parse_module(R"(
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%arg0: tensor<4xi64>) -> (tensor<4xi64>, tensor<2xi64>) {
  %0:2 = sdy.manual_computation(%arg0)
      in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>, <@mesh, [{}]>]
      manual_axes={"x"} (%arg1: tensor<2xi64>) {
    %1 = stablehlo.add %arg1, %arg1 : tensor<2xi64>
    %2 = "stablehlo.all_reduce"(%arg1) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %t = stablehlo.add %a, %b : tensor<i64>
      stablehlo.return %t : tensor<i64>
    }) : (tensor<2xi64>) -> tensor<2xi64>
    sdy.return %1, %2 : tensor<2xi64>, tensor<2xi64>
  } : (tensor<4xi64>) -> (tensor<4xi64>, tensor<2xi64>)
  return %0#0, %0#1 : tensor<4xi64>, tensor<2xi64>
})");
  const auto results =
      run_function(graph, "main", std::vector{make_array(Type::tensor(DType::I64, {4}), "iota")});
  EXPECT_EQ(ints(results[0]), (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(ints(results[1]), (std::vector<int64_t>{2, 4}));
}

// A body that is not elementwise runs element by element; one that is, on the whole array.
TEST(MapRegion, BothWaysAgree) {
  auto module = [](const std::string& noise) {
    return parse_module(R"(
func.func @main(%x: tensor<4x3xi64>) -> tensor<3xi64> {
  %init = stablehlo.constant dense<1> : tensor<i64>
  %0 = stablehlo.reduce(%x init: %init) across dimensions = [0] : (tensor<4x3xi64>, tensor<i64>) -> tensor<3xi64>
   reducer(%a: tensor<i64>, %b: tensor<i64>) {
    %two = stablehlo.constant dense<2> : tensor<i64>
    %1 = stablehlo.multiply %a, %b : tensor<i64>
    %2 = stablehlo.multiply %1, %two : tensor<i64>
    )" + noise + R"(
    stablehlo.return %r : tensor<i64>
  }
  return %0 : tensor<3xi64>
})");
  };
  const std::vector<Array> args = {make_array(Type::tensor(DType::I64, {4, 3}), "random:3")};
  const auto fast = run_function(module("%r = stablehlo.negate %2 : tensor<i64>"), "main", args);
  const auto slow =
      run_function(module("%s = stablehlo.reshape %2 : (tensor<i64>) -> tensor<1xi64>"
                          "%n = stablehlo.negate %s : tensor<1xi64>"
                          "%r = stablehlo.reshape %n : (tensor<1xi64>) -> tensor<i64>"),
                   "main", args);
  EXPECT_TRUE(identical(fast[0], slow[0]));
}

}  // namespace
}  // namespace cleave
