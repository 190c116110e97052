// Functions of scalar code: comparators that an op lists, and what the bodies of reductions call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/compile/executable.h"
#include "cleave/compile/fuse.h"
#include "cleave/graph/scalar_code.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/interpreter.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The two elements of a row that a comparator puts first, as JAX writes approx_max_k and
// approx_min_k.
std::string top_2(const std::string& comparator) {
  return R"(
  func.func @before(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
    )" + comparator +
         R"(
    return %0 : tensor<i1>
  }
  func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
    %places = stablehlo.iota dim = 1 : tensor<2x4xi32>
    %none = stablehlo.constant dense<-1> : tensor<i32>
    %worst = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.custom_call @ApproxTopK(%x, %places, %worst, %none) {called_computations = [@before], mhlo.backend_config = {reduction_dim = 1 : i64, top_k = 2 : i64}} : (tensor<2x4xf32>, tensor<2x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
    return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xi32>
  })";
}

std::vector<int32_t> places(const std::vector<Array>& results) {
  const Array packed = results[1].contiguous();
  return {packed.data<int32_t>(), packed.data<int32_t>() + packed.num_elements()};
}

TEST(ScalarFunctions, TheComparatorOfATopKIsRunAndNotGuessed) {
  const std::vector<float> data = {3, -7, 1, 5, 4, 0, 2, -1};
  const std::vector<Array> args = {Array::from_bytes(DType::F32, {2, 4}, data.data())};
  const std::string compare = "%0 = stablehlo.compare ";
  const std::string type = " : (tensor<f32>, tensor<f32>) -> tensor<i1>";
  for (const auto& [text, first] : std::vector<std::pair<std::string, std::vector<int32_t>>>{
           {compare + "GT, %a, %b" + type, {3, 0, 0, 2}},
           {compare + "LT, %a, %b" + type, {1, 2, 3, 1}},
           {compare + "LT, %b, %a" + type, {3, 0, 0, 2}},
           {compare + "GT, %b, %a" + type, {1, 2, 3, 1}},
           {"%x = stablehlo.abs %a : tensor<f32>\n%y = stablehlo.abs %b : tensor<f32>\n" + compare +
                "LT, %x, %y" + type,
            {2, 0, 1, 3}}}) {
    const Graph graph = parse_module(top_2(text));
    EXPECT_EQ(places(run_function(graph, "main", args)), first) << text;
    EXPECT_EQ(places(Executable(graph, "main").run(args)), first) << text;
  }
}

TEST(ScalarFunctions, AComparatorOfAnotherTypeIsRefused) {
  const std::string wrong = R"(%0 = stablehlo.is_finite %a : (tensor<f32>) -> tensor<i1>)";
  std::string text = top_2(wrong);
  text.replace(text.find("%i: tensor<i32>"), 15, "%i: tensor<f32>");
  EXPECT_THAT(error_of([&] { parse_module(text); }),
              HasSubstr("(f32, f32, i32, i32) -> i1 for scalars"));
}

TEST(ScalarFunctions, AreNotFused) {
  Graph graph = parse_module(R"(
  func.func @both(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.abs %a : tensor<f32>
    %1 = func.call @inner(%0, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
  func.func @inner(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.abs %b : tensor<f32>
    %1 = stablehlo.maximum %a, %0 : tensor<f32>
    return %1 : tensor<f32>
  }
  func.func @main(%x: tensor<4x3xf32>) -> tensor<3xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.tanh %x : tensor<4x3xf32>
    %1 = stablehlo.negate %0 : tensor<4x3xf32>
    %2 = stablehlo.reduce(%1 init: %zero) across dimensions = [0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>)  {
      %3 = func.call @both(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }
    return %2 : tensor<3xf32>
  })");
  EXPECT_THAT(scalar_functions(graph), ElementsAre("both", "inner"));
  EXPECT_TRUE(fuse(graph, {}));
  for (const Function& function : graph.functions) {
    bool fused = false;
    for (NodeId id : graph.region(function.body).nodes)
      fused |= graph.node(id).name() == "cleave.fusion";
    EXPECT_EQ(fused, function.name == "main") << function.name;
  }
}

}  // namespace
}  // namespace cleave
