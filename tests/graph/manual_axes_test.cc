#include "cleave/graph/manual_axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"

namespace cleave {
namespace {

using testing::HasSubstr;

// A manual computation over "x" of a mesh x=2,y=2 whose body is `body`, on %arg1 and giving %r;
// `functions` stand after it.
std::string module_of(const std::string& body, const std::string& functions = "") {
  return R"(
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg1: tensor<2x6xf32>) {
)" + body +
         R"(
    sdy.return %r : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
})" + functions;
}

std::string error_of(const std::string& text) {
  try {
    verify_graph(parse_module(text));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(ManualAxes, AreNotUsedInsideTheBody) {
  for (const char* sharding : {"[{}, {\"x\"}]", "[{\"y\"}, {\"x\"}]",
                               "[{}, {}], replicated={\"x\"}", "[{}, {}], unreduced={\"x\"}"}) {
    const std::string text = module_of(std::string("%r = sdy.sharding_constraint %arg1 <@mesh, ") +
                                       sharding + "> : tensor<2x6xf32>");
    EXPECT_THAT(error_of(text), HasSubstr("axis \"x\" which is already bound")) << sharding;
  }
  EXPECT_EQ(error_of(module_of(
                "%r = sdy.sharding_constraint %arg1 <@mesh, [{\"y\"}, {}]> : tensor<2x6xf32>")),
            "");
}

TEST(ManualAxes, NorByOpsWithAShardingOfTheirOwn) {
  EXPECT_THAT(
      error_of(module_of(
          R"(%r = stablehlo.tanh %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<2x6xf32>)")),
      HasSubstr("stablehlo.tanh"));
}

TEST(ManualAxes, NorByAManualComputationInside) {
  const auto inner = [](const std::string& axis, const std::string& local) {
    return module_of("%r = sdy.manual_computation(%arg1) in_shardings=[<@mesh, [{\"" + axis +
                     "\"}, {}]>] out_shardings=[<@mesh, [{\"" + axis +
                     "\"}, {}]>] manual_axes={\"" + axis + "\"} (%arg2: tensor<" + local +
                     ">) {\n sdy.return %arg2 : tensor<" + local +
                     ">\n } : (tensor<2x6xf32>) -> tensor<2x6xf32>");
  };
  EXPECT_THAT(error_of(inner("x", "1x6xf32")), HasSubstr("already bound"));
  EXPECT_EQ(error_of(inner("y", "1x6xf32")), "");
}

TEST(ManualAxes, NorInFunctionsThatTheBodyCalls) {
  const std::string call = "%r = func.call @f(%arg1) : (tensor<2x6xf32>) -> tensor<2x6xf32>";
  const std::string through = R"(
func.func private @f(%a: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %0 = func.call @g(%a) : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
func.func private @g(%a: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %0 = sdy.sharding_constraint %a <@mesh, [{}, {"AXIS"}]> : tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
})";
  std::string bad = through, good = through;
  bad.replace(bad.find("AXIS"), 4, "x");
  good.replace(good.find("AXIS"), 4, "y");
  EXPECT_THAT(error_of(module_of(call, bad)), HasSubstr("already bound"));
  EXPECT_EQ(error_of(module_of(call, good)), "");
  const std::string argument = R"(
func.func private @f(%a: tensor<2x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<2x6xf32> {
  return %a : tensor<2x6xf32>
})";
  EXPECT_THAT(error_of(module_of(call, argument)), HasSubstr("function @f"));
}

TEST(Functions, MayEndAsJaxEndsComparators) {
  EXPECT_EQ(error_of(R"(
func.func private @gt(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %0 : tensor<i1>
})"),
            "");
  EXPECT_THAT(error_of("func.func @f(%a: tensor<f32>) -> tensor<f32> {\n  sdy.return %a : "
                       "tensor<f32>\n}"),
              HasSubstr("a function ends with func.return"));
}

}  // namespace
}  // namespace cleave
