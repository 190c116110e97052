#include "cleave/plan/verify_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/plan/planner.h"
#include "tests/support/memory_models.h"

namespace cleave::plan {
namespace {

Plan plan_of(const Graph& graph, const char* mesh) {
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh(mesh));
  options.profile = &builtin_profile("h100");
  options.machine = "h100";
  const PlannerResult result = make_plan(graph, options);
  EXPECT_TRUE(result.plan.has_value()) << result.reason;
  return *result.plan;
}

// What the planner says of five models is what happens.
TEST(VerifyPlan, PlansHoldWhatTheySay) {
  for (const auto& [name, text] : memory_models()) {
    const Graph graph = parse_module(text);
    for (const char* mesh : {"x=2,y=2", "x=4"}) {
      const PlanVerification v = verify_plan(plan_of(graph, mesh), graph, builtin_profile("h100"));
      EXPECT_TRUE(v.good()) << name << " on " << mesh << "\n" << to_string(v);
      EXPECT_TRUE(v.changes.empty());
    }
  }
}

// Weights in uneven shards are gathered, and their gradients scattered.
TEST(VerifyPlan, UnevenShardsHoldWhatTheySay) {
  for (const char* mesh : {"x=3", "x=5", "x=2,y=3"})
    for (const char* name : {"model:mlp?step=train", "model:gpt?step=train&layers=1"}) {
      const Graph graph = models::build_model(name).graph;
      PlannerOptions options;
      options.mesh = std::make_shared<const Mesh>(parse_mesh(mesh));
      options.profile = &builtin_profile("h100");
      const std::string axis = options.mesh->axes.back().name;
      for (const char* pin : {"[0].*=[{{\"{}\"}}, {{}}]", "[1].m*=[{{}}, {{\"{}\"}}]"})
        options.pins.push_back(parse_pin(fmt::format(fmt::runtime(pin), axis), options.mesh));
      const PlannerResult result = make_plan(graph, options);
      ASSERT_TRUE(result.plan);
      const PlanVerification v = verify_plan(*result.plan, graph, *options.profile);
      EXPECT_TRUE(v.good()) << name << " on " << mesh << "\n" << to_string(v);
      EXPECT_FALSE(v.collectives.empty()) << name;
    }
}

// A Fourier transform computes in wider numbers, a cumulative sum pads what it has at every step.
TEST(VerifyPlan, WorkspacesOfKernelsAreCounted) {
  constexpr const char* kTransform = R"(
  func.func @main(%x: tensor<64x128xf32>) -> tensor<64x65xcomplex<f32>> {
    %0 = stablehlo.fft %x, type = RFFT, length = [128] : (tensor<64x128xf32>) -> tensor<64x65xcomplex<f32>>
    return %0 : tensor<64x65xcomplex<f32>>
  })";
  constexpr const char* kSum = R"(
  func.func @main(%x: tensor<256x512xf32>) -> tensor<256x512xf32> {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %c) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
    }) {window_dimensions = array<i64: 1, 512>, padding = dense<[[0, 0], [511, 0]]> : tensor<2x2xi64>} : (tensor<256x512xf32>, tensor<f32>) -> tensor<256x512xf32>
    return %0 : tensor<256x512xf32>
  })";
  for (const char* text : {kTransform, kSum}) {
    const Graph graph = parse_module(text);
    const PlanVerification v = verify_plan(plan_of(graph, "x=4"), graph, builtin_profile("h100"));
    EXPECT_TRUE(v.good()) << to_string(v);
    const auto measured = static_cast<double>(v.measured_peak);
    EXPECT_NEAR(static_cast<double>(v.predicted_peak), measured, 0.02 * measured) << to_string(v);
  }
}

constexpr const char* kLarge = R"(
  func.func @main(%x: tensor<1024x4096xf32>, %w: tensor<4096x16384xf32>, %v: tensor<16384x4096xf32>) -> tensor<1024x4096xf32> {
    %0 = stablehlo.dot %x, %w : (tensor<1024x4096xf32>, tensor<4096x16384xf32>) -> tensor<1024x16384xf32>
    %1 = stablehlo.tanh %0 : tensor<1024x16384xf32>
    %2 = stablehlo.dot %1, %v : (tensor<1024x16384xf32>, tensor<16384x4096xf32>) -> tensor<1024x4096xf32>
    return %2 : tensor<1024x4096xf32>
  })";

TEST(VerifyPlan, LargeModulesRunSmall) {
  const Graph graph = parse_module(kLarge);
  const PlanVerification v =
      verify_plan(plan_of(graph, "data=4,model=8"), graph, builtin_profile("h100"));
  EXPECT_TRUE(v.good()) << to_string(v);
  EXPECT_FALSE(v.changes.empty());
}

// A plan and its verification count the bytes that a device receives alike, also those of an
// all_reduce over eight devices, for which the log has four times as many.
TEST(VerifyPlan, BytesReceivedAreThoseOfThePlan) {
  const Graph graph = parse_module(R"(
    func.func @main(%x: tensor<64x256xf32>, %w: tensor<256x64xf32>) -> tensor<64x64xf32> {
      %0 = stablehlo.dot %x, %w : (tensor<64x256xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
      %1 = stablehlo.tanh %0 : tensor<64x64xf32>
      return %1 : tensor<64x64xf32>
    })");
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh("data=4,model=2"));
  options.profile = &builtin_profile("h100");
  for (const char* pin :
       {R"(x=[{}, {"data", "model"}])", R"(w=[{"data", "model"}, {}])", "replicate tanh.0"})
    options.pins.push_back(parse_pin(pin, options.mesh));
  const PlannerResult result = make_plan(graph, options);
  ASSERT_TRUE(result.plan);
  const PlanVerification v = verify_plan(*result.plan, graph, *options.profile);
  EXPECT_TRUE(v.good()) << to_string(v);
  ASSERT_EQ(result.plan->totals.collectives.size(), 1u);
  ASSERT_EQ(v.collectives.size(), 1u);
  const CollectiveTotal& planned = result.plan->totals.collectives[0];
  const CollectiveCheck& ran = v.collectives[0];
  EXPECT_EQ(planned.kind, "all_reduce");
  EXPECT_EQ(planned.bytes, 2 * 7 * (64 * 64 * 4 / 8));
  EXPECT_EQ(ran.received_bytes, planned.bytes);
  EXPECT_EQ(ran.measured_log, 7 * 64 * 64 * 4);
  EXPECT_THAT(to_string(v), testing::HasSubstr("28.0 KiB received"));
  EXPECT_THAT(explain_totals(*result.plan), testing::HasSubstr("28.0 KiB received"));
}

TEST(VerifyPlan, FindsWhatIsWrong) {
  const Graph graph = parse_module(memory_models().at("mlp"));
  Plan plan = plan_of(graph, "x=4");
  plan.totals.seconds *= 1.5;
  const PlanVerification v = verify_plan(plan, graph, builtin_profile("h100"));
  EXPECT_FALSE(v.seconds_good());
  EXPECT_FALSE(v.good());
  EXPECT_THAT(to_string(v), testing::HasSubstr("NOT verified"));
  Plan other = plan_of(parse_module(kLarge), "x=4");
  EXPECT_THROW(verify_plan(other, graph, builtin_profile("h100")), UserError);
}

// Many rows, small weights: it pays to gather them.
constexpr const char* kWide = R"(
  func.func @main(%x: tensor<262144x1024xf32>, %w: tensor<1024x4096xf32>, %v: tensor<4096x1024xf32>) -> tensor<262144x1024xf32> {
    %0 = stablehlo.dot %x, %w : (tensor<262144x1024xf32>, tensor<1024x4096xf32>) -> tensor<262144x4096xf32>
    %1 = stablehlo.tanh %0 : tensor<262144x4096xf32>
    %2 = stablehlo.dot %1, %v : (tensor<262144x4096xf32>, tensor<4096x1024xf32>) -> tensor<262144x1024xf32>
    return %2 : tensor<262144x1024xf32>
  })";

Plan pinned_plan(const Graph& graph) {
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh("data=4,model=8"));
  options.profile = &builtin_profile("h100");
  for (const auto& [name, spec] :
       std::map<std::string, std::string>{{"x", R"([{"data"}, {}])"},
                                          {"w", R"([{"data"}, {"model"}])"},
                                          {"v", R"([{"model"}, {"data"}])"}})
    options.pins.push_back({name, parse_sharding(spec, options.mesh), name});
  return *make_plan(graph, options).plan;
}

TEST(ExplainPlan, NamesPatternsFromLayouts) {
  const auto names = [](const char* text) {
    const Graph graph = parse_module(text);
    std::string all;
    for (const NamedPattern& pattern : named_patterns(pinned_plan(graph), graph))
      for (const std::string& name : pattern.names) all += pattern.weight + ": " + name + "\n";
    return all;
  };
  EXPECT_THAT(names(kLarge), testing::HasSubstr("w: column-parallel over \"model\""));
  EXPECT_THAT(names(kLarge), testing::HasSubstr("v: row-parallel over \"model\""));
  EXPECT_THAT(names(kWide), testing::HasSubstr("w: data parallel over \"data\""));
  EXPECT_THAT(names(kWide),
              testing::HasSubstr("w: fully sharded (gathered for use) over \"data\""));
}

TEST(ExplainPlan, AlternativesSurroundTheChoice) {
  const Graph graph = parse_module(kLarge);
  const Plan plan = plan_of(graph, "data=4,model=8");
  for (const PlannedOp& op : plan.ops) {
    if (op.op != "stablehlo.dot") continue;
    const std::vector<Alternative> ways =
        alternatives(plan, graph, builtin_profile("h100"), op.name);
    EXPECT_GT(ways.size(), 5u);
    int chosen = 0;
    for (const Alternative& way : ways) chosen += way.chosen;
    EXPECT_EQ(chosen, 1) << op.name;
    for (const Alternative& way : ways)
      if (way.chosen) {
        EXPECT_NEAR(way.compute, op.seconds * op.times, 1e-12);
      }
  }
  EXPECT_THAT(explain_op(plan, graph, builtin_profile("h100"), "dot.0"), testing::HasSubstr("why"));
  EXPECT_THROW(explain_op(plan, graph, builtin_profile("h100"), "dot.99"), UserError);
  const std::string text = explain_plan(plan, graph, builtin_profile("h100"));
  EXPECT_THAT(text, testing::HasSubstr("how matmuls run"));
  EXPECT_THAT(text, testing::HasSubstr("memory of a device"));
  EXPECT_THAT(explain_totals(plan), testing::HasSubstr("compute"));
}

}  // namespace
}  // namespace cleave::plan
