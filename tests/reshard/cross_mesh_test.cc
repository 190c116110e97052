#include "cleave/reshard/cross_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/machine/collective.h"

namespace cleave {
namespace {

MeshPtr mesh(const char* text) { return std::make_shared<const Mesh>(parse_mesh(text)); }

constexpr int64_t kMiB = 1 << 20;

// The numbers of docs/internals/cross-mesh.md: 64 MiB from four loading hosts to eight GPUs.
TEST(CrossMesh, LoadingMeshToTrainingMesh) {
  const MeshPtr hosts = mesh("host=4"), gpus = mesh("data=2,model=4");
  const ShardingSpec from = parse_sharding(R"([{"host"}, {}])", hosts);
  const ShardingSpec to = parse_sharding(R"([{}, {"model"}])", gpus);
  const Shape shape{4096, 4096};
  const MeshLink link{25, 50, 20};
  const MachineProfile& h100 = builtin_profile("h100");

  const CrossMeshPlan direct = cross_mesh_by(to, from, to, shape, DType::F32, link, h100);
  EXPECT_THAT(direct.sent, testing::Each(32 * kMiB));
  EXPECT_THAT(direct.received, testing::Each(16 * kMiB));
  EXPECT_NEAR(direct.seconds, 20e-6 + 32 * kMiB / 25e9, 1e-9);

  const CrossMeshPlan best = plan_cross_mesh(from, to, shape, DType::F32, link, h100);
  EXPECT_EQ(to_string(best.landing), R"([{"data"}, {"model"}])");
  EXPECT_THAT(best.sent, testing::Each(16 * kMiB));
  EXPECT_THAT(best.received, testing::Each(8 * kMiB));
  ASSERT_EQ(best.after.steps.size(), 1u);
  EXPECT_EQ(best.after.steps[0].kind, StepKind::AllGather);
  const double gather =
      collective_seconds(CollectiveKind::AllGather, 16 * kMiB, *gpus, {whole_axis(*gpus, 0)}, h100);
  EXPECT_NEAR(best.seconds, 20e-6 + 16 * kMiB / 25e9 + gather, 1e-9);
  EXPECT_NEAR(best.lower_bound, 20e-6 + 16 * kMiB / 25e9, 1e-9);
  EXPECT_NEAR(direct.seconds * 1e3, 1.362, 0.001);
  EXPECT_NEAR(best.seconds * 1e3, 0.748, 0.005);
  EXPECT_NEAR(best.lower_bound * 1e3, 0.691, 0.001);
}

// Stage to stage: activations that tensor parallelism holds on every device of a stage.
TEST(CrossMesh, PipelineStages) {
  const MeshPtr first = mesh("model=4"), second = mesh("model=4");
  const ShardingSpec from = parse_sharding("[{}, {}]", first),
                     to = parse_sharding("[{}, {}]", second);
  const Shape shape{2048, 8192};  // 32 MiB of bf16
  const MeshLink link{50, 50, 10};
  const MachineProfile& h100 = builtin_profile("h100");
  const CrossMeshPlan direct = cross_mesh_by(to, from, to, shape, DType::BF16, link, h100);
  EXPECT_THAT(direct.sent, testing::Each(32 * kMiB));
  const CrossMeshPlan best = plan_cross_mesh(from, to, shape, DType::BF16, link, h100);
  EXPECT_THAT(best.sent, testing::Each(8 * kMiB));
  EXPECT_NEAR(direct.seconds * 1e6, 681, 1);
  EXPECT_LT(best.seconds, 0.45 * direct.seconds);
  EXPECT_GE(best.seconds, best.lower_bound);
  EXPECT_NEAR(best.lower_bound * 1e6, 178, 1);
}

// Every element arrives exactly once per device of its landing; the bound holds; uneven sizes too.
TEST(CrossMesh, BytesAddUp) {
  const MachineProfile& h100 = builtin_profile("h100");
  for (const char* source :
       {"[{}, {}]", R"([{"a"}, {}])", R"([{"a", "b"}, {}])", R"([{"b"}, {"a"}])"})
    for (const char* target :
         {"[{}, {}]", R"([{"x"}, {}])", R"([{}, {"y", "x"}])", R"([{"y"}, {}])"})
      for (const Shape& shape : {Shape{24, 36}, Shape{7, 10}}) {
        const ShardingSpec from = parse_sharding(source, mesh("a=3,b=2"));
        const ShardingSpec to = parse_sharding(target, mesh("x=2,y=2"));
        const CrossMeshPlan plan = plan_cross_mesh(from, to, shape, DType::F32, {10, 20, 1}, h100);
        const int64_t sent = std::accumulate(plan.sent.begin(), plan.sent.end(), int64_t{0});
        const int64_t received =
            std::accumulate(plan.received.begin(), plan.received.end(), int64_t{0});
        int64_t wanted = 0;
        for (int64_t p = 0; p < 4; ++p)
          wanted += num_elements(shard_slice(plan.landing, shape, p).size) * 4;
        EXPECT_EQ(sent, received);
        EXPECT_EQ(received, wanted);
        EXPECT_GE(plan.seconds, plan.lower_bound * (1 - 1e-12)) << source << " -> " << target;
      }
}

TEST(CrossMesh, PendingReductionsStay) {
  const ShardingSpec from = parse_sharding(R"([{}], unreduced={"a"})", mesh("a=2"));
  const ShardingSpec to = parse_sharding("[{}]", mesh("x=2"));
  EXPECT_THROW(plan_cross_mesh(from, to, {8}, DType::F32, {1, 1, 1}, builtin_profile("h100")),
               UserError);
}

}  // namespace
}  // namespace cleave
