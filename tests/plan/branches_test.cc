#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

// One branch is a matmul, the other one is elementwise; both are split over "x".
constexpr const char* kBranches = R"(
  func.func @main(%which: tensor<i32>, %x: tensor<4096x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
    %0 = "stablehlo.case"(%which) ({
      %1 = stablehlo.tanh %x : tensor<4096x4096xf32>
      stablehlo.return %1 : tensor<4096x4096xf32>
    }, {
      %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
      stablehlo.return %1 : tensor<4096x4096xf32>
    }) : (tensor<i32>) -> tensor<4096x4096xf32>
    return %0 : tensor<4096x4096xf32>
  })";

TEST(Branches, TheDearestCounts) {
  const Graph graph = parse_module(kBranches);
  const Plan plan = *make_plan(graph, options_for("x=2")).plan;
  EXPECT_EQ(plan.find_op("case.0/0/tanh.0")->times, 0);
  EXPECT_EQ(plan.find_op("case.0/1/dot_general.0")->times, 1);
  EXPECT_NEAR(plan.totals.seconds,
              plan.find_op("case.0/1/dot_general.0")->seconds + plan.find_op("return")->seconds,
              1e-12);
  EXPECT_TRUE(plan.bound.proven);
  // The branch that does not count is planned well all the same: over both devices.
  EXPECT_EQ(to_string(plan.find_op("case.0/0/tanh.0")->results[0]),
            to_string(plan.find_value("x")->spec));
  EXPECT_FALSE(plan.find_value("x")->spec.is_fully_replicated());
}

// Pins make one branch communicate; whichever one a run takes, it is as planned.
TEST(Branches, AreVerifiedAlongTheWayThatTheRunGoes) {
  const Graph graph = parse_module(kBranches);
  for (const char* pin : {"case.0/0/tanh.0=[{}, {}]", "case.0/1/dot_general.0=[{}, {}]"}) {
    PlannerOptions options = options_for("x=2");
    for (const char* text : {"x=[{\"x\"}, {}]", pin})
      options.pins.push_back(parse_pin(text, options.mesh));
    const Plan plan = *make_plan(graph, options).plan;
    for (uint64_t seed : {1, 2, 3, 4}) {
      VerifyPlanOptions how;
      how.seed = seed;
      const PlanVerification v = verify_plan(plan, graph, *options.profile, how);
      EXPECT_TRUE(v.good()) << pin << "\n" << to_string(v);
    }
  }
}

// Branches in a loop, and a branch in a branch.
TEST(Branches, InsideOthers) {
  const Graph graph = parse_module(R"(
    func.func @main(%which: tensor<i32>, %x: tensor<128x128xf32>, %w: tensor<128x128xf32>) -> tensor<128x128xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<128x128xf32>
      cond {
        %n = stablehlo.constant dense<4> : tensor<i32>
        %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %i, %one : tensor<i32>
        %b = "stablehlo.case"(%i) ({
          %1 = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
          stablehlo.return %1 : tensor<128x128xf32>
        }, {
          %2 = "stablehlo.case"(%which) ({
            %3 = stablehlo.tanh %v : tensor<128x128xf32>
            stablehlo.return %3 : tensor<128x128xf32>
          }, {
            %3 = stablehlo.transpose %v, dims = [1, 0] : (tensor<128x128xf32>) -> tensor<128x128xf32>
            %4 = stablehlo.add %3, %v : tensor<128x128xf32>
            stablehlo.return %4 : tensor<128x128xf32>
          }) : (tensor<i32>) -> tensor<128x128xf32>
          stablehlo.return %2 : tensor<128x128xf32>
        }) : (tensor<i32>) -> tensor<128x128xf32>
        stablehlo.return %next, %b : tensor<i32>, tensor<128x128xf32>
      }
      return %r#1 : tensor<128x128xf32>
    })");
  for (const char* pin : {"x=[{\"x\"}, {}]", "x=[{}, {\"x\"}]"}) {
    expect_verified_plans(graph, options_for("x=2", {pin}));
  }
}

constexpr const char* kLoop = R"(
  func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %f = stablehlo.constant dense<false> : tensor<i1>
    %r:3 = stablehlo.while(%i = %c, %v = %x, %done = %f) : tensor<i32>, tensor<64x64xf32>, tensor<i1>
    cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %1 = stablehlo.not %done : tensor<i1>
      %2 = stablehlo.and %0, %1 : tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %0 = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %1 = stablehlo.tanh %0 : tensor<64x64xf32>
      %2 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %2, %1, %done : tensor<i32>, tensor<64x64xf32>, tensor<i1>
    }
    return %r#1 : tensor<64x64xf32>
  })";

TEST(Trips, AreGivenForLoopsThatDoNotSay) {
  const Graph graph = parse_module(kLoop);
  PlannerOptions options = options_for("x=2");
  options.pins.push_back(parse_pin("w=[{\"x\"}, {}]", options.mesh));  // communicates in the body
  const Plan one = *make_plan(graph, options).plan;
  EXPECT_THAT(one.notes, testing::ElementsAre(testing::HasSubstr("--trips")));
  options.trips = 8;
  const Plan eight = *make_plan(graph, options).plan;
  EXPECT_EQ(eight.trips, 8);
  EXPECT_EQ(eight.find_op("while.0/1/tanh.0")->times, 8);
  const double host = one.find_op("return")->seconds;  // once a step
  EXPECT_GT(eight.totals.seconds - host, 4 * (one.totals.seconds - host));
  EXPECT_EQ(plan_from_json(to_json(eight)).trips, 8);
  for (const Plan& plan : {one, eight}) {
    const PlanVerification v = verify_plan(plan, graph, *options.profile);
    EXPECT_TRUE(v.good()) << to_string(v);
    EXPECT_THAT(explain_plan(plan, graph, *options.profile), testing::HasSubstr("dot_general"));
  }
}

}  // namespace
}  // namespace cleave::plan
