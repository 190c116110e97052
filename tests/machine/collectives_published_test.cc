#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cleave/machine/collective.h"

// Times of collectives that others measured and published, with the repository, the commit and the
// path of each; bytes are those of the larger side of a buffer, as nccl-tests counts.
namespace cleave {
namespace {

constexpr auto AllGather = CollectiveKind::AllGather, ReduceScatter = CollectiveKind::ReduceScatter,
               AllReduce = CollectiveKind::AllReduce, AllToAll = CollectiveKind::AllToAll,
               Permute = CollectiveKind::Permute;

struct Published {
  const char* machine;
  CollectiveKind kind;
  GroupLinks links;
  double bytes, us;
};

// clang-format off
const Published kPublished[] = {
    // ai-dynamo/aiconfigurator@095f58a51c4c systems/data/a100_sxm/comm/nccl/2.27.3/nccl_perf.parquet
    {"a100", AllGather, {2, 2, 1}, 65536, 12.52},
    {"a100", AllGather, {2, 2, 1}, 16777216, 93.44},
    {"a100", AllGather, {2, 2, 1}, 536870912, 1789.8},
    {"a100", AllGather, {4, 4, 1}, 65536, 15.38},
    {"a100", AllGather, {4, 4, 1}, 16777216, 118.5},
    {"a100", AllGather, {4, 4, 1}, 536870912, 2102},
    {"a100", AllGather, {8, 8, 1}, 65536, 21.15},
    {"a100", AllGather, {8, 8, 1}, 16777216, 135},
    {"a100", AllGather, {8, 8, 1}, 536870912, 2288},
    {"a100", AllReduce, {2, 2, 1}, 65536, 12.97},
    {"a100", AllReduce, {2, 2, 1}, 16777216, 128.2},
    {"a100", AllReduce, {2, 2, 1}, 536870912, 2781.1},
    {"a100", AllReduce, {4, 4, 1}, 65536, 17.8},
    {"a100", AllReduce, {4, 4, 1}, 16777216, 183.5},
    {"a100", AllReduce, {4, 4, 1}, 536870912, 3716.3},
    {"a100", AllReduce, {8, 8, 1}, 65536, 28.06},
    {"a100", AllReduce, {8, 8, 1}, 16777216, 216.5},
    {"a100", AllReduce, {8, 8, 1}, 536870912, 4225.9},
    {"a100", AllToAll, {2, 2, 1}, 65536, 13.91},
    {"a100", AllToAll, {2, 2, 1}, 16777216, 98.31},
    {"a100", AllToAll, {2, 2, 1}, 536870912, 1635.3},
    {"a100", AllToAll, {4, 4, 1}, 65536, 14.51},
    {"a100", AllToAll, {4, 4, 1}, 16777216, 104.4},
    {"a100", AllToAll, {4, 4, 1}, 536870912, 2065.7},
    {"a100", AllToAll, {8, 8, 1}, 65536, 14.22},
    {"a100", AllToAll, {8, 8, 1}, 16777216, 114.3},
    {"a100", AllToAll, {8, 8, 1}, 536870912, 2313.5},
    {"a100", ReduceScatter, {2, 2, 1}, 65536, 11.75},
    {"a100", ReduceScatter, {2, 2, 1}, 16777216, 82.27},
    {"a100", ReduceScatter, {2, 2, 1}, 536870912, 1611.8},
    {"a100", ReduceScatter, {4, 4, 1}, 65536, 13.87},
    {"a100", ReduceScatter, {4, 4, 1}, 16777216, 109.3},
    {"a100", ReduceScatter, {4, 4, 1}, 536870912, 1982.3},
    {"a100", ReduceScatter, {8, 8, 1}, 65536, 18.04},
    {"a100", ReduceScatter, {8, 8, 1}, 16777216, 123.4},
    {"a100", ReduceScatter, {8, 8, 1}, 536870912, 2207.1},
    // ai-dynamo/aiconfigurator@095f58a51c4c systems/data/h100_sxm/comm/nccl/2.29.2/nccl_perf.parquet
    {"h100", AllGather, {2, 2, 1}, 65536, 6.37},
    {"h100", AllGather, {2, 2, 1}, 16777216, 56},
    {"h100", AllGather, {2, 2, 1}, 536870912, 1038.6},
    {"h100", AllGather, {4, 4, 1}, 65536, 8.97},
    {"h100", AllGather, {4, 4, 1}, 16777216, 66.21},
    {"h100", AllGather, {4, 4, 1}, 536870912, 1267.5},
    {"h100", AllGather, {8, 8, 1}, 65536, 13.14},
    {"h100", AllGather, {8, 8, 1}, 16777216, 68.86},
    {"h100", AllGather, {8, 8, 1}, 536870912, 1401.5},
    {"h100", AllReduce, {2, 2, 1}, 65536, 7.29},
    {"h100", AllReduce, {2, 2, 1}, 16777216, 82.17},
    {"h100", AllReduce, {2, 2, 1}, 536870912, 1686.4},
    {"h100", AllReduce, {4, 4, 1}, 65536, 11.27},
    {"h100", AllReduce, {4, 4, 1}, 16777216, 99.01},
    {"h100", AllReduce, {4, 4, 1}, 536870912, 2299.7},
    {"h100", AllReduce, {8, 8, 1}, 65536, 18.68},
    {"h100", AllReduce, {8, 8, 1}, 16777216, 121.91},
    {"h100", AllReduce, {8, 8, 1}, 536870912, 2111.1},
    {"h100", AllToAll, {2, 2, 1}, 65536, 11.96},
    {"h100", AllToAll, {2, 2, 1}, 16777216, 53.05},
    {"h100", AllToAll, {2, 2, 1}, 536870912, 958.87},
    {"h100", AllToAll, {4, 4, 1}, 65536, 9.57},
    {"h100", AllToAll, {4, 4, 1}, 16777216, 68.93},
    {"h100", AllToAll, {4, 4, 1}, 536870912, 1397},
    {"h100", AllToAll, {8, 8, 1}, 65536, 8.71},
    {"h100", AllToAll, {8, 8, 1}, 16777216, 75.66},
    {"h100", AllToAll, {8, 8, 1}, 536870912, 1490.4},
    {"h100", ReduceScatter, {2, 2, 1}, 65536, 6.28},
    {"h100", ReduceScatter, {2, 2, 1}, 16777216, 53.18},
    {"h100", ReduceScatter, {2, 2, 1}, 536870912, 1077.9},
    {"h100", ReduceScatter, {4, 4, 1}, 65536, 8.17},
    {"h100", ReduceScatter, {4, 4, 1}, 16777216, 59.27},
    {"h100", ReduceScatter, {4, 4, 1}, 536870912, 1299.8},
    {"h100", ReduceScatter, {8, 8, 1}, 65536, 11.71},
    {"h100", ReduceScatter, {8, 8, 1}, 16777216, 69.67},
    {"h100", ReduceScatter, {8, 8, 1}, 536870912, 1399.4},
    // ai-dynamo/aiconfigurator@095f58a51c4c systems/data/h200_sxm/comm/nccl/2.29.2/nccl_perf.parquet
    {"h200", AllGather, {8, 8, 1}, 65536, 13.13},
    {"h200", AllGather, {8, 8, 1}, 16777216, 66.91},
    {"h200", AllGather, {8, 8, 1}, 536870912, 1395},
    {"h200", AllReduce, {8, 8, 1}, 65536, 19.89},
    {"h200", AllReduce, {8, 8, 1}, 16777216, 121.74},
    {"h200", AllReduce, {8, 8, 1}, 536870912, 2040.3},
    {"h200", AllToAll, {8, 8, 1}, 65536, 12.07},
    {"h200", AllToAll, {8, 8, 1}, 16777216, 73.44},
    {"h200", AllToAll, {8, 8, 1}, 536870912, 1509.9},
    {"h200", ReduceScatter, {8, 8, 1}, 65536, 13},
    {"h200", ReduceScatter, {8, 8, 1}, 16777216, 69.45},
    {"h200", ReduceScatter, {8, 8, 1}, 536870912, 1393.3},
    // openxla/xla@e5d008bb03d9 xla/service/gpu/model/default_collective_perf_table.txtpb (key sm_90)
    {"h100", AllGather, {8, 8, 1}, 16777216, 82.24},
    {"h100", AllGather, {8, 8, 1}, 536870912, 1392.3},
    {"h100", AllGather, {8, 8, 1}, 2147483648, 5343.4},
    {"h100", AllReduce, {8, 8, 1}, 16777216, 145.28},
    {"h100", AllReduce, {8, 8, 1}, 536870912, 2431.6},
    {"h100", AllReduce, {8, 8, 1}, 2147483648, 9338.2},
    {"h100", AllToAll, {8, 8, 1}, 16777216, 105.6},
    {"h100", AllToAll, {8, 8, 1}, 536870912, 1460.5},
    {"h100", AllToAll, {8, 8, 1}, 2147483648, 5532.7},
    {"h100", ReduceScatter, {8, 8, 1}, 16777216, 86.592},
    {"h100", ReduceScatter, {8, 8, 1}, 536870912, 1496.2},
    {"h100", ReduceScatter, {8, 8, 1}, 2147483648, 5710},
    {"h100", Permute, {8, 8, 1}, 65536, 13.461},
    {"h100", Permute, {8, 8, 1}, 16777216, 153.1},
    {"h100", Permute, {8, 8, 1}, 536870912, 1993.9},
    // NVIDIA/dgxc-benchmarking@841f5466cd86 nccl/README.md
    {"h100", AllReduce, {8, 8, 1}, 65536, 19.54},
    {"h100", AllReduce, {8, 8, 1}, 16777216, 123.8},
    {"h100", AllReduce, {8, 8, 1}, 17179869184, 62648},
    // stas00/ml-engineering@744d01e18b79 network/README.md
    {"b200", AllReduce, {8, 8, 1}, 67108864, 293.16},
    {"b200", AllReduce, {8, 8, 1}, 1073741824, 2597.7},
    {"b200", AllReduce, {8, 8, 1}, 17179869184, 35551},
    {"b200", AllReduce, {32, 8, 4}, 8388608, 462.78},
    {"b200", AllReduce, {32, 8, 4}, 67108864, 829.55},
    {"b200", AllReduce, {32, 8, 4}, 1073741824, 5747.1},
    {"b200", AllReduce, {32, 8, 4}, 17179869184, 87182},
    // crazyguitar/aws-gpu-communication-benchmark@fd167f97ab85 data/nccl_all_reduce.csv
    {"h100", AllReduce, {16, 8, 2}, 33554432, 427.06},
    {"h100", AllReduce, {16, 8, 2}, 268435456, 1381},
    {"h100", AllReduce, {16, 8, 2}, 2147483648, 9047.4},
    {"h100", AllReduce, {32, 8, 4}, 33554432, 681.61},
    {"h100", AllReduce, {32, 8, 4}, 268435456, 1902.7},
    {"h100", AllReduce, {32, 8, 4}, 2147483648, 11971},
    {"h100", AllReduce, {64, 8, 8}, 33554432, 761.59},
    {"h100", AllReduce, {64, 8, 8}, 268435456, 2277.1},
    {"h100", AllReduce, {64, 8, 8}, 2147483648, 15200},
    {"h100", AllReduce, {128, 8, 16}, 33554432, 889.57},
    {"h100", AllReduce, {128, 8, 16}, 268435456, 3596.5},
    {"h100", AllReduce, {128, 8, 16}, 2147483648, 15730},
    {"h100", AllReduce, {256, 8, 32}, 33554432, 1007.6},
    {"h100", AllReduce, {256, 8, 32}, 268435456, 3875.5},
    {"h100", AllReduce, {256, 8, 32}, 2147483648, 15876},
    // crazyguitar/aws-gpu-communication-benchmark@fd167f97ab85 data/nccl_all_gather.csv
    {"h100", AllGather, {16, 8, 2}, 33554432, 239.58},
    {"h100", AllGather, {16, 8, 2}, 268435456, 1167.4},
    {"h100", AllGather, {16, 8, 2}, 2147483648, 6127.2},
    {"h100", AllGather, {32, 8, 4}, 33554432, 389.01},
    {"h100", AllGather, {32, 8, 4}, 268435456, 1026.4},
    {"h100", AllGather, {32, 8, 4}, 2147483648, 6286.6},
    {"h100", AllGather, {64, 8, 8}, 33554432, 713.55},
    {"h100", AllGather, {64, 8, 8}, 268435456, 1226.6},
    {"h100", AllGather, {64, 8, 8}, 2147483648, 7197.3},
    {"h100", AllGather, {128, 8, 16}, 33554432, 1337},
    {"h100", AllGather, {128, 8, 16}, 268435456, 1848.9},
    {"h100", AllGather, {128, 8, 16}, 2147483648, 8035.9},
    {"h100", AllGather, {256, 8, 32}, 33554432, 2699.8},
    {"h100", AllGather, {256, 8, 32}, 268435456, 3098.3},
    {"h100", AllGather, {256, 8, 32}, 2147483648, 8140.6},
    // crazyguitar/aws-gpu-communication-benchmark@fd167f97ab85 data/nccl_alltoall.csv
    {"h100", AllToAll, {16, 8, 2}, 33554432, 702.33},
    {"h100", AllToAll, {16, 8, 2}, 268435456, 3388.9},
    {"h100", AllToAll, {16, 8, 2}, 2147483648, 25404},
    {"h100", AllToAll, {32, 8, 4}, 33554432, 943.57},
    {"h100", AllToAll, {32, 8, 4}, 268435456, 4790.8},
    {"h100", AllToAll, {32, 8, 4}, 2147483648, 38476},
    {"h100", AllToAll, {64, 8, 8}, 33554432, 1152.1},
    {"h100", AllToAll, {64, 8, 8}, 268435456, 5951.4},
    {"h100", AllToAll, {64, 8, 8}, 2147483648, 42594},
    {"h100", AllToAll, {128, 8, 16}, 33554432, 1351.7},
    {"h100", AllToAll, {128, 8, 16}, 268435456, 7660},
    {"h100", AllToAll, {128, 8, 16}, 2147483648, 48173},
    {"h100", AllToAll, {256, 8, 32}, 33554432, 1694.9},
    {"h100", AllToAll, {256, 8, 32}, 268435456, 8850.9},
    {"h100", AllToAll, {256, 8, 32}, 2147483648, 52455},
    // oracle-japan.github.io/ocitutorials/hpc/benchmark/run-nccltests-h100
    {"h100", AllReduce, {16, 8, 2}, 1073741824, 4511.2},
};
// clang-format on

struct Errors {
  double median, most, largest;  // `most`: of nine in ten
};

template <typename Predicate>
Errors errors_of(Predicate&& belongs) {
  std::vector<double> errors;
  for (const Published& row : kPublished) {
    if (!belongs(row)) continue;
    const CollectiveCost cost = collective_cost(row.kind, row.links, builtin_profile(row.machine));
    errors.push_back(std::abs(cost.seconds(row.bytes) * 1e6 / row.us - 1));
  }
  std::sort(errors.begin(), errors.end());
  return {errors[errors.size() / 2], errors[errors.size() * 9 / 10], errors.back()};
}

TEST(PublishedCollectives, AllMachinesSizesAndRanks) {
  const Errors errors = errors_of([](const Published&) { return true; });
  EXPECT_LT(errors.median, 0.07);
  EXPECT_LT(errors.most, 0.20);
  EXPECT_LT(errors.largest, 0.50);
}

TEST(PublishedCollectives, EveryKindInsideANode) {
  for (CollectiveKind kind : {AllGather, ReduceScatter, AllReduce, AllToAll, Permute}) {
    const Errors errors =
        errors_of([&](const Published& row) { return row.kind == kind && row.links.nodes == 1; });
    EXPECT_LT(errors.median, 0.15) << name(kind);
    EXPECT_LT(errors.most, 0.40) << name(kind);
  }
}

TEST(PublishedCollectives, EveryKindAcrossNodes) {
  for (CollectiveKind kind : {AllGather, AllReduce, AllToAll}) {
    const Errors errors =
        errors_of([&](const Published& row) { return row.kind == kind && row.links.nodes > 1; });
    EXPECT_LT(errors.median, 0.15) << name(kind);
    EXPECT_LT(errors.most, 0.40) << name(kind);
  }
}

// The switch reduces if there are more than four GPUs; rings are as quick for four and quicker for
// two (busbw of 8 GiB on H200 with and without NVLS, stas00/ml-engineering@744d01e18b79
// network/README.md).
TEST(PublishedCollectives, TheSwitchReducesForManyGpus) {
  const double bytes = 8589934592.0;
  const double busbw[] = {363.3, 414.2, 435.6, 460.0, 473.1};
  for (int64_t ranks = 4; ranks <= 8; ++ranks) {
    const auto n = static_cast<double>(ranks);
    const double seconds =
        collective_cost(AllReduce, {ranks, ranks, 1}, builtin_profile("h200")).seconds(bytes);
    EXPECT_NEAR(bytes * 2 * (n - 1) / n / seconds * 1e-9 / busbw[ranks - 4], 1, 0.07) << ranks;
  }
  MachineProfile without = builtin_profile("h200");
  auto& protocols = without.collectives[static_cast<size_t>(AllReduce)];
  ASSERT_EQ(std::erase_if(protocols, [](const auto& protocol) { return protocol.in_switch; }), 1u);
  const double ring = collective_cost(AllReduce, {8, 8, 1}, without).seconds(bytes);
  EXPECT_NEAR(bytes * 1.75 / ring * 1e-9 / 365.6, 1, 0.07);
}

// Published for ring Simple over nodes of 8 H100 on InfiniBand (the model of AutoParallel): a hop
// of 30 us gives its latencies.
TEST(PublishedCollectives, RingLatencyOfManyNodes) {
  const MachineProfile h100 = with_network(builtin_profile("h100"), {50, 30});
  const double expected[] = {70, 146, 297, 599, 1204};
  int64_t nodes = 2;
  for (double us : expected) {
    const auto lines = collective_cost(AllGather, {8 * nodes, 8, nodes}, h100).lines();
    EXPECT_NEAR(lines.back().latency * 1e6 / us, 1, 0.2) << nodes;
    nodes *= 2;
  }
}

}  // namespace
}  // namespace cleave
