#include "cleave/analyze/program_cost.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "cleave/graph/text/text.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/reshard/reshard.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave::analyze {
namespace {

// Column-parallel, then row-parallel: one all_reduce over "model" of the 16x8 result.
constexpr const char* kMegatron = R"(
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                  %w: tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
                  %v: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
      -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    %0 = stablehlo.dot %x, %w : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    %1 = stablehlo.tanh %0 : tensor<16x32xf32>
    %2 = stablehlo.dot %1, %v : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
    return %2 : tensor<16x8xf32>
  })";

constexpr const char* kLoop = R"(
  sdy.mesh @mesh = <["x"=2]>
  func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.dot %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.tanh %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
  func.func @main(%x: tensor<4x8xf32>,
                  %w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %limit = stablehlo.constant dense<7> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4x8xf32>
      cond {
        %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %b = func.call @layer(%a, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %b : tensor<i32>, tensor<4x8xf32>
      }
    return %0#1 : tensor<4x8xf32>
  })";

double sum_of(const ProgramCost& cost) {
  double sum = 0;
  for (const NodeCost& node : cost.nodes) sum += node.seconds;
  return sum;
}

TEST(ProgramCost, IsTheSumOfRooflinesAndTheReshardsPrice) {
  const Program program = partition(parse_module(kMegatron), {.entry = "main"});
  const MachineProfile& h100 = builtin_profile("h100");
  const ProgramCost cost = program_cost(program, h100);
  // By hand, on local shapes: 8x8 x 8x8, tanh of 8x8, 8x8 x 8x8.
  const double dot = op_seconds({2. * 8 * 8 * 8, 512, 256, KernelClass::Matmul}, DType::F32, h100);
  const double tanh = op_seconds({640, 256, 256, kFunctionClass}, DType::F32, h100);
  const MeshPtr mesh = program.mesh;
  const double reduce =
      plan_reshard(parse_sharding(R"([{"data"}, {}], unreduced={"model"})", mesh),
                   parse_sharding(R"([{"data"}, {}])", mesh), {16, 8}, DType::F32, h100)
          .seconds;
  EXPECT_DOUBLE_EQ(cost.compute[static_cast<size_t>(KernelClass::Matmul)], 2 * dot);
  EXPECT_DOUBLE_EQ(cost.compute[static_cast<size_t>(kFunctionClass)], tanh);
  EXPECT_DOUBLE_EQ(cost.transfer_seconds, reduce);
  EXPECT_DOUBLE_EQ(cost.seconds, 2 * dot + tanh + reduce);
  EXPECT_DOUBLE_EQ(cost.flops, 2 * (2 * 8 * 8 * 8) + 640);
  ASSERT_EQ(cost.transfers.size(), 1u);
  EXPECT_EQ(cost.transfers[0].kind, "all_reduce");
  EXPECT_EQ(cost.transfers[0].axes, "\"model\"");
  EXPECT_THAT(to_string(cost, program), testing::HasSubstr("all_reduce \"model\""));
}

TEST(ProgramCost, LoopsAndCallsCountEveryTrip) {
  const Graph graph = parse_module(kLoop);
  graph.walk([&](NodeId id) {
    if (graph.node(id).name() == "stablehlo.while") {
      EXPECT_EQ(trip_count(graph, graph.node(id)), 7);
    }
  });
  const Program program = partition(graph, {.entry = "main"});
  const ProgramCost cost = program_cost(program, builtin_profile("h100"));
  EXPECT_EQ(cost.unknown_loops, 0);
  for (const NodeCost& node : cost.nodes)
    if (program.graph.node(node.node).name() == "stablehlo.dot") {
      EXPECT_EQ(node.executions, 7);
    }
  EXPECT_DOUBLE_EQ(sum_of(cost), cost.seconds);
}

TEST(ProgramCost, CountsDownAndInStrides) {
  auto trips = [](const char* begin, const char* direction, const char* limit, const char* step) {
    const std::string text = std::string(R"(
      func.func @main() -> tensor<i32> {
        %a = stablehlo.constant dense<)") +
                             begin + R"(> : tensor<i32>
        %l = stablehlo.constant dense<)" +
                             limit + R"(> : tensor<i32>
        %s = stablehlo.constant dense<)" +
                             step + R"(> : tensor<i32>
        %0 = stablehlo.while(%i = %a) : tensor<i32>
          cond {
            %c = stablehlo.compare )" +
                             direction + R"(, %i, %l : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %j = stablehlo.add %i, %s : tensor<i32>
            stablehlo.return %j : tensor<i32>
          }
        return %0 : tensor<i32>
      })";
    const Graph graph = parse_module(text);
    std::optional<int64_t> result;
    graph.walk([&](NodeId id) {
      if (graph.node(id).name() == "stablehlo.while") result = trip_count(graph, graph.node(id));
    });
    return result;
  };
  EXPECT_EQ(trips("0", "LT", "10", "3"), 4);
  EXPECT_EQ(trips("0", "LE", "9", "3"), 4);
  EXPECT_EQ(trips("5", "GT", "0", "-1"), 5);
  EXPECT_EQ(trips("5", "GE", "0", "-1"), 6);
  EXPECT_EQ(trips("0", "NE", "6", "2"), 3);
  EXPECT_EQ(trips("5", "LT", "5", "1"), 0);
  EXPECT_EQ(trips("0", "LT", "5", "-1"), std::nullopt);
}

// For random shardings of every value no node is counted twice.
TEST(ProgramCost, TotalIsTheSumOverNodes) {
  for (const char* name : {"h100", "a100", "tpu-v4"}) {
    const auto profile = std::make_shared<const MachineProfile>(builtin_profile(name));
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Graph graph = parse_module(kMegatron);
      const MeshPtr mesh = graph.meshes[0];
      drop_shardings_and_meshes(graph);
      graph.meshes = {mesh};
      shard_randomly(graph, "main", mesh, seed);
      const Program program =
          partition(graph, {.entry = "main", .mesh = mesh, .profile = profile.get()});
      const ProgramCost cost = program_cost(program, *profile);
      EXPECT_NEAR(sum_of(cost), cost.seconds, 1e-12 * cost.seconds);
      EXPECT_NEAR(cost.compute_seconds + cost.transfer_seconds, cost.seconds, 1e-9 * cost.seconds);
      double sum = 0;
      for (const CollectiveCostSum& transfers : cost.transfers) sum += transfers.seconds;
      EXPECT_NEAR(sum, cost.transfer_seconds, 1e-9 * cost.seconds);
    }
  }
}

// A function that only changes the layout of its argument costs what the search says.
TEST(ProgramCost, PriceOfAReshardIsThatOfTheSearch) {
  const MeshPtr mesh =
      std::make_shared<const Mesh>(Mesh({{"x", 2}, {"y", 3}, {"z", 2}}, {}, "mesh"));
  std::mt19937 random(7);
  auto some_spec = [&] {
    ShardingSpec spec = ShardingSpec::closed_replicated(mesh, 2);
    for (int axis : {0, 1, 2})
      if (const auto where = random() % 3; where < 2)
        spec.dims[where].axes.push_back(whole_axis(*mesh, axis));
    return spec;
  };
  const auto profile = std::make_shared<const MachineProfile>(builtin_profile("h100"));
  for (int i = 0; i < 200; ++i) {
    const ShardingSpec from = some_spec(), to = some_spec();
    const Shape shape{12 + int64_t(random() % 7), 24};
    Graph graph = parse_module(fmt::format(
        "sdy.mesh @mesh = <[\"x\"=2, \"y\"=3, \"z\"=2]>\n"
        "func.func @main(%x: tensor<{0}x24xf32> {{sdy.sharding = #sdy.sharding<@mesh, {1}>}}) -> "
        "(tensor<{0}x24xf32> {{sdy.sharding = #sdy.sharding<@mesh, {2}>}}) {{\n"
        "  return %x : tensor<{0}x24xf32>\n}}",
        shape[0], to_string(from), to_string(to)));
    const Program program = partition(graph, {.entry = "main", .profile = profile.get()});
    const ReshardPlan plan = plan_reshard(from, to, shape, DType::F32, *profile);
    const ProgramCost cost = program_cost(program, *profile);
    EXPECT_DOUBLE_EQ(cost.seconds, plan.seconds) << to_string(from) << " -> " << to_string(to);
    double bytes = 0;
    for (const CollectiveCostSum& sum : cost.transfers) bytes += sum.bytes;
    EXPECT_EQ(bytes, static_cast<double>(plan.bytes));
  }
}

TEST(ProgramCost, DevicesThatShareCoresTakeTurns) {
  MachineProfile host = builtin_profile("h100");
  host.devices_per_node = 64;
  host.concurrent_devices = 2;
  const Program program = partition(parse_module(kMegatron), {.entry = "main"});
  const double alone = program_cost(program, builtin_profile("h100")).compute_seconds;
  EXPECT_NEAR(program_cost(program, host).compute_seconds, 4 * alone, 1e-9 * alone);
  EXPECT_EQ(shared_by(host, 2).launch_us, host.launch_us);
  EXPECT_EQ(profile_from_json(to_json(host)).concurrent_devices, 2);
}

}  // namespace
}  // namespace cleave::analyze
