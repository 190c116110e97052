#include <gtest/gtest.h>

#include <limits>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/plan/planner.h"

namespace cleave::plan {
namespace {

// A loop whose trips only the user can know.
constexpr const char* kLoop = R"(
func.func @main(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %m = %n, %a = %x) : tensor<i32>, tensor<i32>, tensor<64x64xf32>
  cond {
    %c = stablehlo.compare LT, %i, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    stablehlo.return %j, %m, %b : tensor<i32>, tensor<i32>, tensor<64x64xf32>
  }
  return %0#2 : tensor<64x64xf32>
}
)";

PlannerOptions options_with(int64_t trips) {
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh("x=2"));
  options.profile = &builtin_profile("h100");
  options.trips = trips;
  return options;
}

TEST(Countable, StepsOfHoursArePlanned) {
  const Graph graph = parse_module(kLoop);
  const PlannerResult once = make_plan(graph, options_with(1));
  const PlannerResult often = make_plan(graph, options_with(1'000'000'000));
  ASSERT_TRUE(once.plan && often.plan);
  EXPECT_TRUE(often.proven);
  const double host = once.plan->find_op("return")->seconds;  // once a step
  EXPECT_GT(often.plan->totals.seconds, 1e8 * (once.plan->totals.seconds - host));
}

// What takes longer than can be counted is not taken for forbidden, nor does its count wrap.
TEST(Countable, StepsOfAgesAreRefused) {
  for (int64_t trips : {int64_t{1} << 50, std::numeric_limits<int64_t>::max()}) {
    try {
      make_plan(parse_module(kLoop), options_with(trips));
      FAIL() << trips;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("--trips"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace cleave::plan
