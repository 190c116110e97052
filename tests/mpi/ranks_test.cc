// Run by several ranks at once, with `cleave launch`: everything here is a call that all of them
// make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/rank_transport.h"
#include "cleave/runtime/recorder.h"
#include "cleave/runtime/run_devices.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"
#include "cleave/tensors.h"
#include "tests/mpi/rank_inputs.h"

namespace cleave {
namespace {

using testing::HasSubstr;
using testing_ranks::meshes;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::filesystem::path> programs() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(CLEAVE_TEST_DIR "/programs"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The same Program by ranks and by threads of one process: the same bits and the same log.
void expect_same_as_local(const Program& program, const std::vector<Array>& args,
                          const std::string& name) {
  CommLog log, local_log;
  const Executor executor(program), local(program, nullptr);
  const std::vector<Array> actual = executor.run(args, {.log = &log});
  const std::vector<Array> expected = local.run(args, {.log = &local_log});
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_TRUE(identical(actual[i], expected[i])) << name << ", result " << i;
  EXPECT_EQ(to_string(log), to_string(local_log)) << name;
  EXPECT_EQ(log.total_bytes(), local_log.total_bytes()) << name;
}

TEST(Ranks, RunEveryProgramAsThreadsDo) {
  for (const std::filesystem::path& path : programs()) {
    const Graph graph = parse_module(read(path), path.filename().string());
    const std::vector<Array> args = arguments(graph);
    for (const std::string& text : meshes())
      for (uint64_t seed = 1; seed <= 2; ++seed) {
        Mesh named = parse_mesh(text);
        named.name = "mesh";
        const auto mesh = std::make_shared<const Mesh>(named);
        Graph sharded = graph;
        sharded.meshes = {mesh};
        shard_randomly(sharded, "main", mesh, seed);
        expect_same_as_local(
            partition(sharded, {.entry = "main", .mesh = mesh}), args,
            fmt::format("{} on {}, seed {}", path.filename().string(), text, seed));
      }
  }
}

// Devices that the mesh names in an order of their own.
TEST(Ranks, RunOnAMeshWithAnOrderOfDevices) {
  const int n = World::of_process()->size();
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.rbegin(), order.rend(), 0);
  const auto mesh = std::make_shared<const Mesh>(Mesh({{"x", n}}, order, "mesh"));
  Graph graph = parse_module(read(CLEAVE_TEST_DIR "/programs/integer_matmul.mlir"));
  const std::vector<Array> args = arguments(graph);
  graph.meshes = {mesh};
  shard_randomly(graph, "main", mesh, 3);
  expect_same_as_local(partition(graph, {.entry = "main", .mesh = mesh}), args, "order");
}

TEST(Ranks, GiveOnlyTheirOwnShards) {
  const int n = World::of_process()->size();
  const Graph graph = parse_module(fmt::format(R"(
    sdy.mesh @mesh = <["x"={}]>
    func.func @main(%a: tensor<9xi32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> (tensor<9xi32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) {{
      %0 = stablehlo.add %a, %a : tensor<9xi32>
      return %0 : tensor<9xi32>
    }})",
                                               2 * n));
  const Executor executor(partition(graph, {.entry = "main"}));
  const int rank = World::of_process()->rank();
  EXPECT_THAT(executor.own_devices(), testing::ElementsAre(2 * rank, 2 * rank + 1));
  const Array whole = make_array(Type::tensor(DType::I32, {9}), "iota");
  const Layout& layout = executor.program().layout(
      executor.program().graph.region(executor.program().entry_function().body).args[0]);
  std::vector<std::vector<Array>> args(2 * n);
  for (int64_t device : executor.own_devices()) args[device] = {shard_of(whole, layout, device)};
  const auto results = executor.run_shards(args);
  for (int64_t device = 0; device < 2 * n; ++device)
    EXPECT_EQ(results[device].at(0).valid(), device / 2 == rank);
}

TEST(Ranks, ADeviceThatFailsIsNamedEverywhere) {
  World& world = *World::of_process();
  const int64_t n = 2 * world.size();
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  for (int repeat = 0; repeat < 3; ++repeat) {
    RankTransport transport(world, n);
    const std::vector<int64_t> own = world.devices_of(Mesh{{"x", n}});
    try {
      run_devices(transport, own, [&](int64_t device) {
        if (device == n - 1) throw_user("test.op: seven is not eight");
        transport.all_gather({device, all, "test.gather %1"}, Array::zeros(DType::I32, {2}), 0);
      });
      FAIL() << "nothing was thrown";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("seven is not eight"));
      if (own.back() != n - 1) {
        EXPECT_THAT(error.what(), HasSubstr("waits in test.gather %1"));
        EXPECT_THAT(error.what(),
                    HasSubstr(fmt::format("device {} of rank {} failed", n - 1, world.size() - 1)));
      }
    }
  }
}

TEST(Ranks, DevicesInDifferentCollectivesAreAnError) {
  World& world = *World::of_process();
  const int64_t n = world.size();
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  RankTransport transport(world, n);
  const std::vector<int64_t> own{world.rank()};
  EXPECT_THROW(run_devices(transport, own,
                           [&](int64_t device) {
                             const char* what = device == 0 ? "test.one %1" : "test.other %2";
                             transport.gather({device, all, what}, Array::zeros(DType::I32, {2}));
                           }),
               TransportError);
}

TEST(Ranks, ADeviceThatHasEndedIsNotWaitedFor) {
  World& world = *World::of_process();
  const int64_t n = world.size();
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  RankTransport transport(world, n);
  const std::vector<int64_t> own{world.rank()};
  try {
    run_devices(transport, own, [&](int64_t device) {
      if (device != 0) transport.gather({device, all, "test.op"}, Array::zeros(DType::I32, {2}));
    });
    EXPECT_EQ(world.rank(), 0);
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("device"));
  }
}

// Any device may send on a channel and any other receive from it.
TEST(Ranks, ChannelsAreInOrder) {
  World& world = *World::of_process();
  const int64_t n = world.size();
  RankTransport transport(world, n);
  const std::vector<int64_t> own{world.rank()};
  run_devices(transport, own, [&](int64_t device) {
    for (int32_t i = 0; i < 5; ++i)
      transport.send(device, device,
                     {Array::scalar(DType::I32, i), Array::scalar(DType::F32, 2.f)});
    for (int32_t i = 0; i < 5; ++i) {
      const auto arrays = transport.receive(device, (device + 1) % n, "test.recv");
      EXPECT_EQ(*arrays.at(0).data<int32_t>(), i);
      EXPECT_EQ(arrays.at(1).dtype(), DType::F32);
    }
  });
}

// Larger than what MPI sends at once, and other members than neighbours.
TEST(Ranks, LargePartsOfGroupsThatAreNotContiguous) {
  World& world = *World::of_process();
  const int64_t n = 2 * world.size();
  RankTransport transport(world, n);
  const std::vector<int64_t> own = world.devices_of(Mesh{{"x", n}});
  const int64_t size = 1 << 18;
  run_devices(transport, own, [&](int64_t device) {
    std::vector<int64_t> group;
    for (int64_t d = device % 2; d < n; d += 2) group.push_back(d);
    std::reverse(group.begin(), group.end());
    Array part(DType::I64, {size});
    for (int64_t i = 0; i < size; ++i) part.data<int64_t>()[i] = i * (device + 1);
    const Array sum = transport.all_reduce({device, group, "test.sum"}, part, {});
    int64_t factor = 0;
    for (int64_t d : group) factor += d + 1;
    for (int64_t i = 0; i < size; i += 1001) EXPECT_EQ(sum.data<int64_t>()[i], i * factor);
  });
}

TEST(Ranks, AMeshOfFewerDevicesThanRanksIsAnError) {
  World& world = *World::of_process();
  try {
    world.devices_of(Mesh{{"x", world.size() - 1}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("fewer than the {} ranks", world.size())));
  }
}

TEST(Ranks, TheFirstRanksHoldOneDeviceMore) {
  World& world = *World::of_process();
  for (int64_t n = world.size(); n < 3 * world.size(); ++n) {
    const DeviceBlocks blocks{n, world.size()};
    int64_t next = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ(blocks.count(rank), n / world.size() + (rank < n % world.size()));
      for (int64_t i = 0; i < blocks.count(rank); ++i) EXPECT_EQ(blocks.rank_of(next++), rank);
    }
    EXPECT_EQ(next, n);
    const std::vector<int64_t> own = world.devices_of(Mesh{{"x", n}});
    EXPECT_EQ(own.front(), blocks.first(world.rank()));
    EXPECT_EQ(static_cast<int64_t>(own.size()), blocks.count(world.rank()));
  }
}

TEST(Ranks, ComputeWithTensorsOverUnevenBlocks) {
  const int n = World::of_process()->size(), devices = 2 * n - 1;
  const Mesh mesh{{"x", devices}};
  const Tensor x =
      reshape(arange(0, 5 * devices * 3, 1, DType::I32), {5 * devices, 3}).shard(mesh, P("x", {}));
  const Tensor y = (x + x).shard(mesh, P("x", {}));
  EXPECT_EQ(y.addressable_shards().size(), World::of_process()->rank() < n - 1 ? 2u : 1u);
  const Array host = y.to_host();
  for (int32_t i = 0; i < 15 * devices; ++i) EXPECT_EQ(host.data<int32_t>()[i], 2 * i);
  EXPECT_EQ(sum(x).item(), 15 * devices * (15 * devices - 1) / 2);
}

TEST(Ranks, ComputeWithTensors) {
  const int n = World::of_process()->size();
  const Mesh mesh{{"x", n}};
  const Tensor x = reshape(arange(0, 5 * n * 3, 1, DType::I32), {5 * n, 3}).shard(mesh, P("x", {}));
  const Tensor y = (x + x).shard(mesh, P("x", {}));
  EXPECT_EQ(y.addressable_shards().size(), 1u);
  const Array host = y.to_host();
  for (int32_t i = 0; i < 15 * n; ++i) EXPECT_EQ(host.data<int32_t>()[i], 2 * i);
  EXPECT_EQ(sum(x).item(), 15 * n * (15 * n - 1) / 2);
}

TEST(Ranks, TimelinesAreMerged) {
  World& world = *World::of_process();
  Graph graph = parse_module(read(CLEAVE_TEST_DIR "/programs/matmul.mlir"));
  const std::vector<Array> args = arguments(graph);
  const auto mesh =
      std::make_shared<const Mesh>(Mesh({{"x", 2 * world.size()}}, std::vector<int64_t>{}, "mesh"));
  graph.meshes = {mesh};
  shard_randomly(graph, "main", mesh, 1);
  const Program program = partition(graph, {.entry = "main", .mesh = mesh});
  Recorder recorder, local;
  Executor(program).run(args, {.observer = &recorder});
  Executor(program, nullptr).run(args, {.observer = &local});
  recorder.merge(world);
  EXPECT_EQ(recorder.events().size(), local.events().size());
  std::set<int64_t> devices;
  for (const Recorder::Event& event : recorder.events()) {
    devices.insert(event.device);
    EXPECT_LE(event.begin, event.end);
  }
  EXPECT_EQ(devices.size(), static_cast<size_t>(2 * world.size()));
}

}  // namespace
}  // namespace cleave
