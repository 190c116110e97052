// What this library's own compiler makes of a program, as prices see it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "cleave/analyze/kernels.h"
#include "cleave/analyze/program_cost.h"
#include "cleave/compile/executable.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/names.h"
#include "cleave/plan/planner.h"
#include "cleave/spmd/partition.h"

namespace cleave::analyze {
namespace {

// A host on which an element of an addition takes 1 ns beside memory and one of an exponential 10,
// and memory 1 ns for each byte beyond the cache.
MachineProfile a_host() {
  MachineProfile host = default_profile();
  host.name = "a host";
  host.devices_per_node = 1 << 20;
  host.executor = builtin_executor("cleave");
  host.executor.launch_us = 2;
  host.launch_us = 0.5;
  host.tiles = {};
  host.matmul = {{DType::F32, {0.1, 1, 0.5}}};
  host.convolution.clear();
  host.loops["elementwise"][DType::F32] = 1;
  host.loops["exponential"][DType::F32] = 10;
  host.loops["reduce.rows"][DType::F32] = 3;
  host.loops["broadcast.rows"][DType::F32] = 0.5;
  for (auto& curves : host.curves) curves.clear();
  host.curves[0][DType::F32] = {{12, 0.5}, {12e3, 1.5}, {12e6, 13000.5}};
  return host;
}

std::map<std::string, KernelUse> marked(const std::string& text) {
  Graph graph = parse_module(text);
  mark_kernels(graph, "main", a_host());
  std::map<std::string, KernelUse> uses;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (const auto use = kernel_use(node); use && !node.results.empty())
      uses[graph.value(node.results[0]).name] = *use;
  });
  return uses;
}

TEST(OwnKernels, AChainIsOneKernel) {
  auto uses = marked(R"(func.func @main(%x: tensor<64x256xf32>) -> tensor<64x256xf32> {
    %y = stablehlo.exponential %x : tensor<64x256xf32>
    %z = stablehlo.multiply %y, %x : tensor<64x256xf32>
    return %z : tensor<64x256xf32>
  })");
  EXPECT_EQ(uses["y"].works, 1);
  EXPECT_EQ(uses["y"].reads, std::vector<double>{1});
  EXPECT_EQ(uses["y"].writes, std::vector<double>{0});
  EXPECT_EQ(uses["y"].spills, std::vector<double>{2 * 64 * 256 * 4});
  EXPECT_EQ(uses["z"].works, 1);
  EXPECT_EQ(uses["z"].reads, (std::vector<double>{0, 0}));  // %x has been read
  EXPECT_EQ(uses["z"].writes, std::vector<double>{1});
  EXPECT_EQ(uses["y"].launches + uses["z"].launches, 1);
}

TEST(OwnKernels, WhatFollowsAProductIsPartOfIt) {
  auto uses = marked(
      R"(func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %v: tensor<16x8xf32>) -> tensor<64x8xf32> {
    %c = stablehlo.constant dense<0.0> : tensor<64x16xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %a = stablehlo.maximum %h, %c : tensor<64x16xf32>
    %y = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x8xf32>) -> tensor<64x8xf32>
    return %y : tensor<64x8xf32>
  })");
  EXPECT_TRUE(uses["h"].is_library);
  EXPECT_EQ(uses["h"].writes, std::vector<double>{0});
  EXPECT_FALSE(uses["a"].is_library);
  EXPECT_EQ(uses["a"].works, 1);
  EXPECT_EQ(uses["a"].reads, (std::vector<double>{0, 0}));
  EXPECT_EQ(uses["a"].writes, std::vector<double>{1});
  EXPECT_EQ(uses["a"].launches, 0);
  EXPECT_TRUE(uses["y"].is_library);
}

TEST(OwnKernels, ATransposeCostsWhereItsReaderNeedsOrder) {
  auto uses =
      marked(R"(func.func @main(%x: tensor<64x32xf32>) -> (tensor<64x64xf32>, tensor<32x64xf32>) {
    %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
    %p = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    %u = stablehlo.transpose %x, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
    %n = stablehlo.negate %u : tensor<32x64xf32>
    return %p, %n : tensor<64x64xf32>, tensor<32x64xf32>
  })");
  EXPECT_FALSE(uses["p"].reads.empty());
  // One of the two is the same value as the other: it is put in order for the negation.
  EXPECT_EQ(uses["t"].is_library + uses["u"].is_library, 1);
}

// seconds = launch + loops + passes, by hand.
TEST(OwnKernels, PricesAreLoopsAndPasses) {
  const MachineProfile host = a_host();
  const double n = 64 * 256, bytes = 4 * n;
  const std::string text = R"(func.func @main(%x: tensor<64x256xf32>) -> tensor<64x256xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %e = stablehlo.exponential %x : tensor<64x256xf32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<64xf32>) -> tensor<64x256xf32>
    %y = stablehlo.divide %e, %b : tensor<64x256xf32>
    return %y : tensor<64x256xf32>
  })";
  const Graph flat = plan::flatten(parse_module(text), "main", host);
  const double seconds =
      program_cost(partition(flat, {.entry = "main", .profile = &host}), host).seconds;
  const double loops = (10 + 3 + 0.5 + 1) * n * 1e-9;
  EXPECT_NEAR(seconds, 2e-6 + loops + 2 * pass_seconds(bytes, host), 1e-12);
  EXPECT_GT(pass_seconds(bytes, host), 0);
}

// Rows take time of their own, however short they are.
TEST(OwnKernels, ShortRowsCostMore) {
  MachineProfile host = a_host();
  host.loops["reduce.row"][DType::F32] = 40;
  host.loops["broadcast.row"][DType::F32] = 2;
  auto seconds = [&](int64_t rows, int64_t columns) {
    const std::string text = fmt::format(
        R"(func.func @main(%x: tensor<{0}x{1}xf32>) -> tensor<{0}x{1}xf32> {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<{0}xf32>) -> tensor<{0}x{1}xf32>
    %y = stablehlo.divide %x, %b : tensor<{0}x{1}xf32>
    return %y : tensor<{0}x{1}xf32>
  }})",
        rows, columns);
    const Graph flat = plan::flatten(parse_module(text), "main", host);
    return program_cost(partition(flat, {.entry = "main", .profile = &host}), host).seconds;
  };
  EXPECT_NEAR(seconds(1024, 16) - seconds(64, 256), (1024 - 64) * 42e-9, 1e-12);
}

// The gaps of a dilated input are computed with.
TEST(OwnKernels, GapsOfConvolutionsAreWork) {
  auto uses = marked(R"(
    func.func @main(%x: tensor<4x8x8x16xf32>, %w: tensor<3x3x16x16xf32>) -> tensor<4x15x15x16xf32> {
      %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<4x8x8x16xf32>, tensor<3x3x16x16xf32>) -> tensor<4x15x15x16xf32>
      return %y : tensor<4x15x15x16xf32>
    })");
  EXPECT_EQ(uses.at("y").gaps, 4);
  EXPECT_GT(uses.at("y").reads[0], uses.at("y").reads[1]);
}

// As many kernels as the compiler makes, in train steps of three models.
TEST(OwnKernels, AreThoseOfTheCompiler) {
  for (const char* model :
       {"model:gpt?step=train", "model:moe?step=train", "model:resnet?step=train"}) {
    const Graph plain = plan::flatten(models::build_model(model).graph, "main");
    Graph graph = plain;
    mark_kernels(graph, "main", a_host());
    double launches = 0, products = 0;
    graph.walk([&](NodeId id) {
      const auto use = kernel_use(graph.node(id));
      if (!use) return;
      launches += use->launches;
      products += is<op::DotGeneral, op::Convolution>(graph.node(id)) && use->is_library;
    });
    const Executable executable(
        plain, "main",
        {.passes = "cleave-merge-common,cleave-fuse-epilogues,cleave-fuse,cleave-recompute"});
    double fusions = 0, alone = 0, made = 0;
    const Graph& code = executable.graph();
    for (NodeId id : code.region(code.find_function("main")->body).nodes) {
      const Node& node = code.node(id);
      bool has_product = is<op::DotGeneral, op::Convolution>(node);
      if (is<op::Fusion>(node))
        for (NodeId member : code.region(node.regions[0]).nodes)
          has_product |= is<op::DotGeneral, op::Convolution>(code.node(member));
      made += has_product;
      fusions += is<op::Fusion>(node) && !has_product;
      alone += is<op::Reduce>(node);
    }
    EXPECT_GT(fusions, 10) << model;
    EXPECT_EQ(launches, fusions + alone) << model;
    EXPECT_EQ(products, made) << model;
  }
}

// The planner adds up what the program costs.
TEST(OwnKernels, PlansCostWhatTheirProgramsDo) {
  const MachineProfile host = a_host();
  const Graph graph = models::build_model("model:mlp?step=train").graph;
  plan::PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh("data=2,model=2"));
  options.profile = &host;
  const plan::PlannerResult result = plan::make_plan(graph, options);
  ASSERT_TRUE(result.plan) << result.reason;
  const Program program = plan::partition_planned(*result.plan, graph, host);
  const double seconds = program_cost(program, host).seconds;
  EXPECT_NEAR(result.plan->totals.seconds, seconds, 1e-9 * seconds);
}

}  // namespace
}  // namespace cleave::analyze
