// MFU, tokens and samples per second, and what limits a step, against numbers made by hand.
#include "cleave/plan/figures.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/names.h"
#include "cleave/plan/planner.h"
#include "tests/plan/models.h"
#include "tests/support/mesh_of.h"

namespace cleave::plan {
namespace {

Plan planned(const Graph& graph, const std::string& mesh, const std::string& machine = "h100") {
  PlannerOptions options;
  options.mesh = mesh_of(mesh);
  options.profile = &builtin_profile(machine);
  const PlannerResult result = make_plan(graph, options);
  EXPECT_TRUE(result.plan) << result.reason;
  return *result.plan;
}

TEST(Figures, UtilizationOfProducts) {
  const Graph graph = parse_module(test::mlp(512, 1024, 4096, 1024));
  const Plan plan = planned(graph, "x=4");
  const PlanFigures figures = plan_figures(plan, graph, builtin_profile("h100"));
  const double flops = 2.0 * 512 * 1024 * 4096 * 2;
  EXPECT_EQ(figures.model_flops, flops);
  EXPECT_EQ(figures.recomputed_flops, 0);
  EXPECT_FALSE(figures.is_of_program);
  // XLA rounds products of f32 to tf32.
  EXPECT_EQ(figures.dtype, "tf32");
  EXPECT_NEAR(figures.peak_flops, 4 * 495e12, 1);
  EXPECT_NEAR(figures.utilization, flops / plan.totals.step_seconds / (4 * 495e12), 1e-12);
  EXPECT_TRUE(figures.items.empty());
  EXPECT_THAT(to_string(figures), testing::HasSubstr("MFU "));
  EXPECT_THAT(to_string(figures), testing::HasSubstr("limited by "));
}

TEST(Figures, LimitsMakeUpTheStep) {
  for (const char* model : {"model:gpt?layers=1&step=train", "model:resnet?batch=8&step=train"}) {
    const Graph graph = models::build_model(model).graph;
    const Plan plan = planned(graph, "data=2,model=2");
    const PlanFigures figures = plan_figures(plan, graph, builtin_profile("h100"));
    double sum = 0;
    for (const PlanFigures::Share& share : figures.limits) sum += share.seconds;
    EXPECT_NEAR(sum, plan.totals.step_seconds, 1e-6 * plan.totals.step_seconds) << model;
  }
}

TEST(Figures, WhatIsComputedAgainIsNotTheModels) {
  // The second product has the operands of the first, behind a barrier, as checkpoints do it.
  const Graph graph = parse_module(R"(
func.func @main(%x: tensor<64x32xbf16>, %w: tensor<32x16xbf16>) -> (tensor<64x16xbf16>, tensor<64x16xbf16>) {
  %0 = stablehlo.dot %x, %w : (tensor<64x32xbf16>, tensor<32x16xbf16>) -> tensor<64x16xbf16>
  %1 = stablehlo.optimization_barrier %x : tensor<64x32xbf16>
  %2 = stablehlo.dot %1, %w : (tensor<64x32xbf16>, tensor<32x16xbf16>) -> tensor<64x16xbf16>
  %3 = stablehlo.tanh %0 : tensor<64x16xbf16>
  return %3, %2 : tensor<64x16xbf16>, tensor<64x16xbf16>
})");
  const Graph flat = flatten(graph, "main");
  const Plan plan = planned(graph, "x=2");
  const ModelFlops flops = model_flops(bind(plan, flat));
  EXPECT_EQ(flops.flops, 2 * 64 * 32 * 16);
  EXPECT_EQ(flops.recomputed, 2 * 64 * 32 * 16);
  EXPECT_EQ(flops.dtype, DType::BF16);
}

TEST(Figures, LoopsCountTheirTrips) {
  const Graph graph = parse_module(R"(
func.func @main(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xbf16>
   cond {
    %c = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %z = stablehlo.dot %y, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    stablehlo.return %n, %z : tensor<i32>, tensor<64x64xbf16>
  }
  return %0#1 : tensor<64x64xbf16>
})");
  const Graph flat = flatten(graph, "main");
  const Plan plan = planned(graph, "x=2");
  EXPECT_EQ(model_flops(bind(plan, flat)).flops, 5 * 2.0 * 64 * 64 * 64);
}

std::optional<StepItems> items_of(const Graph& graph) {
  return step_items(flatten(graph, "main"), "main");
}

TEST(Figures, TokensAndSamples) {
  const auto text = models::build_model("model:gpt?layers=1&batch=4&length=32&step=train");
  std::optional<StepItems> items = items_of(text.graph);
  ASSERT_TRUE(items);
  EXPECT_EQ(items->what, "tokens");
  EXPECT_EQ(items->count, 4 * 32);
  items = items_of(models::build_model("model:resnet?batch=8&step=train").graph);
  ASSERT_TRUE(items);
  EXPECT_EQ(items->what, "samples");
  EXPECT_EQ(items->count, 8);
  // Not certain: no tokens, no images; two token arrays of different lengths.
  EXPECT_FALSE(items_of(parse_module(test::mlp(512, 1024, 4096, 1024))));
  const auto two = [](int length) {
    return parse_module(fmt::format(
        R"(
func.func @main(%e: tensor<100x8xf32>, %a: tensor<4x16xi32>, %b: tensor<4x{0}xi32>) -> (tensor<4x16x8xf32>, tensor<4x{0}x8xf32>) {{
  %0 = "stablehlo.gather"(%e, %a) <{{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 8>}}> : (tensor<100x8xf32>, tensor<4x16xi32>) -> tensor<4x16x8xf32>
  %1 = "stablehlo.gather"(%e, %b) <{{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 8>}}> : (tensor<100x8xf32>, tensor<4x{0}xi32>) -> tensor<4x{0}x8xf32>
  return %0, %1 : tensor<4x16x8xf32>, tensor<4x{0}x8xf32>
}})",
        length));
  };
  EXPECT_FALSE(items_of(two(12)));
  items = items_of(two(16));
  ASSERT_TRUE(items);
  EXPECT_EQ(items->count, 64);
}

TEST(Figures, TravelWithThePlan) {
  const Graph graph = parse_module(test::mlp_step(64, 32, 64, 32));
  Plan plan = planned(graph, "x=2");
  plan.figures = plan_figures(plan, graph, builtin_profile("h100"));
  const Plan read = plan_from_json(to_json(plan));
  ASSERT_TRUE(read.figures);
  EXPECT_NEAR(read.figures->model_flops, plan.figures->model_flops, 1);
  EXPECT_EQ(read.figures->limits, plan.figures->limits);
  EXPECT_EQ(read.figures->dtype, plan.figures->dtype);
  plan.figures.reset();
  EXPECT_FALSE(plan_from_json(to_json(plan)).figures);
}

}  // namespace
}  // namespace cleave::plan
