// Compiled programs over ranks. Run by several ranks at once, as ranks_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "cleave/compile/executable.h"
#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/rank_transport.h"
#include "cleave/runtime/recorder.h"
#include "cleave/runtime/run_devices.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"
#include "cleave/tensors.h"
#include "cleave/transforms/compile.h"
#include "cleave/transforms/grad.h"
#include "tests/compile/count_allocations.h"
#include "tests/mpi/rank_inputs.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;
using testing_ranks::meshes;

constexpr const char* kPasses = "cleave-simplify,cleave-fuse";

Graph program_of(const std::string& name) {
  std::ifstream in(CLEAVE_TEST_DIR "/programs/" + name + ".mlir");
  return parse_module(std::string(std::istreambuf_iterator<char>(in), {}), name);
}

Program sharded(Graph graph, const std::string& text, uint64_t seed) {
  Mesh named = parse_mesh(text);
  named.name = "mesh";
  const auto mesh = std::make_shared<const Mesh>(named);
  graph.meshes = {mesh};
  shard_randomly(graph, "main", mesh, seed);
  return partition(graph, {.entry = "main", .mesh = mesh});
}

// The same code by ranks and by threads of one process, twice.
void expect_same_as_local(const Program& program, const std::vector<Array>& args,
                          const std::string& passes, const std::string& name) {
  Executable ranks(program, {.passes = passes}), local(program, {.passes = passes}, nullptr);
  EXPECT_EQ(ranks.is_compiled(), local.is_compiled()) << name;
  for (int turn = 0; turn < 2; ++turn) {
    CommLog log, local_log;
    const std::vector<Array> actual = ranks.run(args, {.log = &log});
    const std::vector<Array> expected = local.run(args, {.log = &local_log});
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      if (is_integer(actual[i].dtype()) || actual[i].dtype() == DType::Bool)
        EXPECT_TRUE(identical(actual[i], expected[i])) << name << ", result " << i;
      else
        EXPECT_TRUE(compare(actual[i], expected[i]).same) << name << ", result " << i;
    }
    EXPECT_EQ(log.count(), local_log.count()) << name;
    EXPECT_EQ(log.total_bytes(), local_log.total_bytes()) << name;
  }
}

TEST(Ranks, RunCompiledProgramsAsThreadsDo) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(CLEAVE_TEST_DIR "/programs"))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const Graph graph = program_of(name);
    const std::vector<Array> args = arguments(graph);
    for (const std::string& mesh : meshes())
      for (uint64_t seed = 1; seed <= 2; ++seed)
        for (const std::string& passes : {std::string(kPasses), CompileOptions().passes})
          expect_same_as_local(sharded(graph, mesh, seed), args, passes,
                               fmt::format("{} on {}, seed {}, {}", name, mesh, seed, passes));
  }
}

TEST(Ranks, RunCompiledOnAMeshWithAnOrderOfDevices) {
  const int n = World::of_process()->size();
  std::vector<int64_t> order(static_cast<size_t>(2 * n));
  std::iota(order.rbegin(), order.rend(), 0);
  const auto mesh = std::make_shared<const Mesh>(Mesh({{"x", n}, {"y", 2}}, order, "mesh"));
  Graph graph = program_of("integer_matmul");
  const std::vector<Array> args = arguments(graph);
  graph.meshes = {mesh};
  shard_randomly(graph, "main", mesh, 3);
  expect_same_as_local(partition(graph, {.entry = "main", .mesh = mesh}), args,
                       CompileOptions().passes, "order");
}

// A chain of products, each completed by an all_reduce, each of which nobody needs at once.
Graph gradients(int64_t devices, int64_t layers, int64_t size) {
  std::string text = fmt::format(R"(
sdy.mesh @mesh = <["x"={}]>
func.func @main(%x: tensor<{}x{}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> ()",
                                 devices, 8 * devices, size);
  std::string body, results, types;
  std::string last = "%x";
  const std::string rows = fmt::format("tensor<{}x{}xf32>", 8 * devices, size);
  const std::string square = fmt::format("tensor<{0}x{0}xf32>", size);
  for (int64_t i = 0; i < layers; ++i) {
    body += fmt::format(
        "  %g{0} = stablehlo.dot_general {1}, %x, contracting_dims = [0] x [0] : ({2}, {2}) -> "
        "{3}\n"
        "  %y{0} = stablehlo.tanh {1} : {2}\n",
        i, last, rows, square);
    last = fmt::format("%y{}", i);
    results += fmt::format("{}%g{}", i ? ", " : "", i);
    types += (i ? ", " : "") + square;
  }
  std::string attributed;
  for (int64_t i = 0; i < layers; ++i)
    attributed += fmt::format("{}{} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}}",
                              i ? ", " : "", square);
  return parse_module(
      text + attributed + ") {\n" + body + "  return " + results + " : " + types + "\n}\n",
      "gradients");
}

Program partitioned(Graph graph) {
  run_propagation_pipeline(graph, {});
  return partition(graph, {.entry = "main"});
}

std::vector<std::vector<Array>> own_shards(const Executable& executable,
                                           const std::vector<Array>& args) {
  const Program& program = *executable.program();
  const auto& values = program.graph.region(program.entry_function().body).args;
  std::vector<std::vector<Array>> shards(static_cast<size_t>(executable.num_devices()));
  for (int64_t device : executable.own_devices())
    for (size_t i = 0; i < args.size(); ++i)
      shards[static_cast<size_t>(device)].push_back(
          shard_of(args[i], program.layout(values[i]), device));
  return shards;
}

// An all_reduce of few bytes and one of many, a reduce_scatter, an all_gather and an all_to_all.
TEST(Ranks, AllocateNothingInTheSteadyState) {
  const int n = World::of_process()->size();
  for (int each : {1, 2}) {
    const Graph graph = parse_module(fmt::format(R"(
sdy.mesh @mesh = <["x"={0}]>
func.func @main(%x: tensor<{1}x5000xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
    -> (tensor<f32> {{sdy.sharding = #sdy.sharding<@mesh, []>}},
        tensor<5000xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}]>}},
        tensor<5000xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}},
        tensor<{1}x5000xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}},
        tensor<{1}x5000xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}}) {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %t = stablehlo.tanh %x : tensor<{1}x5000xf32>
  %a = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<{1}x5000xf32>, tensor<f32>) -> tensor<f32>
  %b = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<{1}x5000xf32>, tensor<f32>) -> tensor<5000xf32>
  %c = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<{1}x5000xf32>, tensor<f32>) -> tensor<5000xf32>
  %d = stablehlo.exponential %x : tensor<{1}x5000xf32>
  return %a, %b, %c, %t, %d : tensor<f32>, tensor<5000xf32>, tensor<5000xf32>, tensor<{1}x5000xf32>, tensor<{1}x5000xf32>
}})",
                                                 each * n, 4 * each * n - 1));
    const std::vector<Array> args = arguments(graph);
    Executable executable(partitioned(graph), {.threads = 1});
    EXPECT_TRUE(executable.is_compiled());
    CommLog log;
    executable.run(args, {.log = &log});
    EXPECT_GE(log.count(), 5u) << to_string(log);
    std::vector<std::vector<Array>> shards = own_shards(executable, args), results;
    for (int warm = 0; warm < 20; ++warm) executable.run_shards_into(shards, results);
    int64_t least = INT64_MAX;  // now and then another rank has something to say
    for (int batch = 0; batch < 6; ++batch) {
      const int64_t before = allocation_count();
      for (int run = 0; run < 5; ++run) executable.run_shards_into(shards, results);
      least = std::min(least, allocation_count() - before);
    }
    EXPECT_EQ(least, 0) << each;
    expect_same_as_local(*executable.program(), args, CompileOptions().passes, "steady");
  }
}

double overlapped(const std::vector<Recorder::Event>& events) {
  double seconds = 0;
  for (const Recorder::Event& flight : events) {
    if (!flight.beside) continue;
    for (const Recorder::Event& op : events)
      if (op.op == "stablehlo.dot_general" && op.device == flight.device)
        seconds += std::max(0.0, std::min(op.end, flight.end) - std::max(op.begin, flight.begin));
  }
  return seconds;
}

TEST(Ranks, CollectivesRunBesideOtherOps) {
  World& world = *World::of_process();
  const Graph graph = gradients(world.size(), 6, 192);
  const std::vector<Array> args = arguments(graph);
  std::vector<Array> results[2];
  for (bool overlap : {false, true}) {
    Executable executable(partitioned(graph),
                          {.passes = overlap ? CompileOptions().passes : kPasses});
    executable.run(args);
    Recorder recorder;
    results[overlap] = executable.run(args, {.observer = &recorder});
    size_t starts = 0, waits = 0, flights = 0;
    for (const Recorder::Event& event : recorder.events()) {
      starts += event.op == "cleave.all_reduce.start";
      waits += event.op == "cleave.all_reduce.wait";
      flights += event.beside;
    }
    EXPECT_EQ(starts, 6u);
    EXPECT_EQ(waits, 6u);
    EXPECT_EQ(flights, 6u);
    if (overlap)
      EXPECT_GT(overlapped(recorder.events()), 0);
    else
      EXPECT_EQ(overlapped(recorder.events()), 0);
    EXPECT_THAT(recorder.timeline(), HasSubstr("\"ph\":\"b\""));
  }
  for (size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(identical(results[0][i], results[1][i]));
}

TEST(Ranks, WithDifferentProgramsGetAnError) {
  World& world = *World::of_process();
  const Graph graph = gradients(world.size(), world.rank() == 0 ? 2 : 3, 32);
  try {
    Executable executable(partitioned(graph));
    FAIL() << "nothing was thrown";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks run different programs: rank"));
    EXPECT_THAT(error.what(), HasSubstr("@main("));
  }
}

// Weights are replicated and rows are sharded: one all_reduce for each gradient.
TEST(Ranks, RunCompiledFunctions) {
  const int n = World::of_process()->size();
  const Mesh mesh{{"data", n}};
  const auto loss = [](const Tensor& w, const Tensor& x) {
    return sum(tanh(matmul(x, w)) * tanh(matmul(x, w)));
  };
  const Tensor x = (reshape(arange(0, 4 * n * 3, 1, DType::F32), {4 * n, 3}) / 50.f);
  const Tensor w = reshape(arange(0, 12, 1, DType::F32), {3, 4}) / 30.f;
  const Array expected = grad(loss)(w, x).to_host();
  const auto step = compile(grad(loss));
  const Tensor sharded_x = x.shard(mesh, P("data", {})), sharded_w = w.shard(mesh, P({}, {}));
  for (int turn = 0; turn < 3; ++turn)
    EXPECT_TRUE(compare(step(sharded_w, sharded_x).to_host(), expected).same);
  EXPECT_EQ(step.stats().traces, 1);
  EXPECT_THAT(step.stats().last, HasSubstr("compiled:"));
}

// Run by two ranks with a short CLEAVE_DEADLOCK_TIMEOUT: see launch_test.cc.
TEST(Circle, OfDevicesThatReceiveWhatNobodySends) {
  World& world = *World::of_process();
  RankTransport transport(world, world.size());
  const std::vector<int64_t> own{world.rank()};
  const std::string error = error_of<TransportError>([&] {
    run_devices(transport, own, [&](int64_t device) { transport.receive(device, 7, "test.recv"); });
  });
  EXPECT_THAT(error, HasSubstr(fmt::format("device {} waits in test.recv: ", world.rank())));
  EXPECT_THAT(error, HasSubstr("every rank waits for another: rank 0: device 0 in test.recv; rank "
                               "1: device 1 in test.recv"));
}

TEST(Circle, OfRanksThatRunDifferentPrograms) {
  World& world = *World::of_process();
  Executable one(partitioned(gradients(world.size(), 1, 32)));
  Executable other(partitioned(gradients(world.size(), 1, 48)));
  Executable& mine = world.rank() == 0 ? one : other;
  auto shards =
      own_shards(mine, {make_array(mine.program()->entry_function().arg_types[0], "random:1")});
  std::vector<std::vector<Array>> results;
  const std::string error =
      error_of<TransportError>([&] { mine.run_shards_into(shards, results); });
  EXPECT_THAT(error, HasSubstr("every rank waits for another: rank 0: device 0 in all_reduce"));
  EXPECT_THAT(error_of<TransportError>([&] { mine.run_shards_into(shards, results); }),
              HasSubstr("a program that has failed"));
  // The world goes on.
  EXPECT_EQ(world.gather({}, "a test").size(), 2u);
}

}  // namespace
}  // namespace cleave
