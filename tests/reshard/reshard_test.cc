#include "cleave/reshard/reshard.h"

#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/mesh_of.h"

namespace cleave {
namespace {

std::string plan_text(std::string_view mesh, const Shape& shape, std::string_view from,
                      std::string_view to, const char* machine = "h100",
                      std::optional<int64_t> memory = std::nullopt) {
  const MeshPtr m = mesh_of(mesh);
  ReshardOptions options;
  options.memory = memory;
  std::string text;
  for (const ReshardStep& step : plan_reshard(parse_sharding(from, m), parse_sharding(to, m), shape,
                                              DType::F32, builtin_profile(machine), options)
                                     .steps)
    text += to_string(step) + "\n";
  return text;
}

TEST(ReshardPlan, NothingToDo) {
  EXPECT_EQ(plan_text("x=2,y=2", {8, 8}, R"([{"x"}, {}])", R"([{"x", ?}, {?}])"), "");
}

TEST(ReshardPlan, SlicesAreLocalAndFused) {
  EXPECT_EQ(plan_text("x=2,y=2", {8, 8}, "[{}, {}]", R"([{"x"}, {"y"}])"),
            "all_slice [{\"x\"}, {\"y\"}] -> [{\"x\"}, {\"y\"}]\n");
}

TEST(ReshardPlan, LatencyDecidesForSmallTensorsAndBytesForLargeOnes) {
  EXPECT_EQ(plan_text("x=2,y=4", {16, 16}, R"([{"x"}, {"y"}])", R"([{"y"}, {"x"}])"),
            "all_gather [{\"x\"}, {\"y\"}] -> [{}, {}]\n"
            "all_slice [{\"y\"}, {\"x\"}] -> [{\"y\"}, {\"x\"}]\n");
  EXPECT_EQ(plan_text("x=4,y=4", {8192, 8192}, R"([{"x"}, {"y"}])", R"([{"y"}, {"x"}])", "tpu-v5p"),
            "collective_permute -> [{\"y\"}, {\"x\"}]\n");
}

TEST(ReshardStep, AxesOfOneDeviceComeAndGoAnywhere) {
  const MeshPtr m = mesh_of("one=1,x=4");
  const auto step = [&](StepKind kind, std::string_view from, std::string_view to) {
    return to_string(make_step(kind, parse_sharding(from, m), parse_sharding(to, m), {8, 8},
                               DType::F32, builtin_profile("h100")));
  };
  EXPECT_EQ(step(StepKind::AllReduce, R"([{"one"}, {}], unreduced={"x"})", R"([{}, {"one"}])"),
            R"(all_reduce {"x"} -> [{}, {"one"}])");
  EXPECT_EQ(step(StepKind::AllToAll, R"([{}, {"one", "x"}])", R"([{"x"}, {}])"),
            R"(all_to_all [{"x"}: 1->0] -> [{"x"}, {}])");
  EXPECT_EQ(step(StepKind::AllGather, R"([{"x", "one"}, {}])", R"([{}, {"one"}])"),
            R"(all_gather [{"x"}, {}] -> [{}, {"one"}])");
}

// A ring: 2 b (n-1)/n of b bytes, in whole bytes, also if the devices do not divide the buffer.
TEST(ReshardStep, AnAllReduceOfFewBytesIsCountedToTheByte) {
  const auto bytes = [](std::string_view mesh, Shape shape, DType dtype) {
    const MeshPtr m = mesh_of(mesh);
    const std::string whole = shape.empty() ? "[]" : "[{}]";
    return make_step(StepKind::AllReduce, parse_sharding(whole + R"(, unreduced={"x"})", m),
                     parse_sharding(whole, m), shape, dtype, builtin_profile("h100"))
        .bytes;
  };
  EXPECT_EQ(bytes("x=8", {}, DType::F32), 7);
  EXPECT_EQ(bytes("x=8", {5}, DType::F32), 35);
  EXPECT_EQ(bytes("x=2", {}, DType::I8), 1);
  EXPECT_EQ(bytes("x=6", {}, DType::F32), 7);  // 6 2/3
  EXPECT_EQ(bytes("x=8", {1024}, DType::F32), 7 * 1024);
}

TEST(ReshardPlan, PartialBecomesShardsByReduceScatter) {
  EXPECT_EQ(plan_text("x=8", {4096, 4096}, R"([{}, {}], unreduced={"x"})", R"([{"x"}, {}])"),
            "reduce_scatter [{\"x\"}, {}] -> [{\"x\"}, {}]\n");
}

// Replicated inside the nodes, partial across them: only a slice of it crosses the network.
TEST(ReshardPlan, AllReduceAcrossNodesIsHierarchical) {
  EXPECT_EQ(plan_text("x=2,y=8", {4096, 4096}, R"([{}, {}], unreduced={"x"})", "[{}, {}]"),
            "all_slice [{\"y\"}, {}] -> [{\"y\"}, {}], unreduced={\"x\"}\n"
            "reduce_scatter [{\"x\"}, {}] -> [{\"y\", \"x\"}, {}]\n"
            "all_gather [{\"y\", \"x\"}, {}] -> [{}, {}]\n");
}

// 9 rows over x and y are 3,3,3,0 and over x alone 5,4: gathering y inside its groups would put row
// 5 into the wrong shard.
TEST(ReshardPlan, UnevenDimensionsGoThroughBordersThatNest) {
  EXPECT_FALSE(chunks_nest(9, 2, 2));
  EXPECT_TRUE(chunks_nest(9, 1, 4));
  EXPECT_TRUE(chunks_nest(8, 2, 2));
  EXPECT_EQ(plan_text("x=2,y=2", {9}, R"([{"x", "y"}])", R"([{"x"}])"),
            "all_gather [{\"x\", \"y\"}] -> [{}]\n"
            "all_slice [{\"x\"}] -> [{\"x\"}]\n");
  const MeshPtr m = mesh_of("x=2,y=2");
  EXPECT_EQ(
      error_of([&] {
        make_step(StepKind::AllGather, parse_sharding(R"([{"x", "y"}])", m),
                  parse_sharding(R"([{"x"}])", m), {9}, DType::F32, default_profile());
      }),
      "all_gather does not lead from [{\"x\", \"y\"}] to [{\"x\"}]: dimension 0 of size 9 has "
      "other borders over 2 shards than over 4");
}

TEST(ReshardPlan, MemoryForcesAnotherWay) {
  const std::string_view from = R"([{"x"}, {"y"}])", to = R"([{"y"}, {"x"}])";
  const std::string gather_all = "all_gather [{\"x\"}, {\"y\"}]";
  EXPECT_NE(plan_text("x=2,y=4", {16, 16}, from, to).find(gather_all), std::string::npos);
  EXPECT_EQ(plan_text("x=2,y=4", {16, 16}, from, to, "h100", 600).find(gather_all),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              plan_text("x=2,y=4", {16, 16}, from, to, "h100", 100);
            })
                .find("no way stays within 100 bytes on a device (its shard takes 128 bytes before "
                      "and 128 after)"),
            std::string::npos);
}

TEST(ReshardPlan, MeshesThatNumberTheSameDevicesAreRelabelled) {
  const MeshPtr flat = mesh_of("d=6"), grid = mesh_of("x=2,y=3");
  const ReshardPlan plan =
      plan_reshard(parse_sharding(R"([{"d"}])", flat), parse_sharding(R"([{"x", "y"}])", grid),
                   {12}, DType::F32, default_profile());
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::Relabel);
  EXPECT_EQ(plan.seconds, 0);
}

// Sending each of four devices the whole costs more than sending each a quarter, once.
TEST(ReshardPlan, ASingleDeviceSendsEveryElementOnce) {
  const MeshPtr mesh = mesh_of("x=2,y=2"), single = mesh_of("<[], device_ids=[0]>");
  const ShardingSpec one = parse_sharding("[]", single);
  auto steps = [&](const ShardingSpec& from, const ShardingSpec& to) {
    std::string text;
    const Shape shape = {4096, 4096};
    for (const ReshardStep& step :
         plan_reshard(from, to, shape, DType::F32, default_profile()).steps)
      text += to_string(step) + "; ";
    return text;
  };
  EXPECT_EQ(steps(one, parse_sharding("[{}, {}]", mesh)),
            "scatter {\"x\", \"y\"} -> [{\"x\", \"y\"}, {}]; "
            "all_gather [{\"x\", \"y\"}, {}] -> [{}, {}]; ");
  EXPECT_EQ(steps(parse_sharding(R"([{"x"}, {}])", mesh), one), "gather -> []; ");
  EXPECT_EQ(steps(parse_sharding(R"([{"x"}, {}], unreduced={"y"})", mesh), one),
            "reduce_scatter [{\"y\"}, {}] -> [{\"x\", \"y\"}, {}]; gather -> []; ");
  const ReshardPlan drop =
      plan_reshard(parse_sharding("[{}, {}]", mesh), one, {8, 8}, DType::F32, default_profile());
  EXPECT_EQ(drop.bytes, 0);  // device 0 has it all
  EXPECT_EQ(drop.seconds, 0);
  EXPECT_TRUE(plan_reshard(one, one, {8, 8}, DType::F32, default_profile()).steps.empty());
  ReshardOptions tight;
  tight.memory = 100;
  EXPECT_NE(error_of([&] {
              plan_reshard(one, parse_sharding("[{}, {}]", mesh), {8, 8}, DType::F32,
                           default_profile(), tight);
            }).find("one of them holds the whole tensor"),
            std::string::npos);
}

TEST(ReshardPlan, SaysWhyItCannot) {
  const MeshPtr four = mesh_of("x=4"), two = mesh_of("x=2");
  auto plan = [](const ShardingSpec& from, const ShardingSpec& to, const Shape& shape) {
    return error_of([&] { plan_reshard(from, to, shape, DType::F32, default_profile()); });
  };
  const ShardingSpec a = parse_sharding(R"([{"x"}])", four);
  EXPECT_EQ(plan(a, parse_sharding("[{}]", two), {8}),
            "reshard: the meshes <[\"x\"=4]> and <[\"x\"=2]> have different numbers of devices");
  EXPECT_NE(plan(a, parse_sharding("[{}]", four), {8, 8}).find("has 1 dimensions but the tensor"),
            std::string::npos);
  EXPECT_NE(plan(a, parse_sharding("[{}]", four), {kDynamicSize}).find("unknown size"),
            std::string::npos);
  EXPECT_EQ(
      error_of([&] {
        make_step(StepKind::AllSlice, a, parse_sharding("[{}]", four), {8}, DType::F32,
                  default_profile());
      }),
      "all_slice does not lead from [{\"x\"}] to [{}]: it can only append axes at minor ends");
}

TEST(PermuteSources, IsABijectionThatKeepsWhatStays) {
  const MeshPtr m = mesh_of("x=2,y=2");
  EXPECT_EQ(
      permute_sources(parse_sharding(R"([{"x", "y"}])", m), parse_sharding(R"([{"y", "x"}])", m)),
      (std::vector<int64_t>{0, 2, 1, 3}));
  const MeshPtr three = mesh_of("x=2,y=2,z=2");
  // z is replicated and keeps its place: shards move between devices of one z.
  const auto sources = permute_sources(parse_sharding(R"([{"x"}, {"y"}])", three),
                                       parse_sharding(R"([{"y"}, {"x"}])", three));
  for (size_t device = 0; device < sources.size(); ++device)
    EXPECT_EQ(sources[device] % 2, static_cast<int64_t>(device) % 2);
}

}  // namespace
}  // namespace cleave
