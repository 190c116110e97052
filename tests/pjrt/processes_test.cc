#include "cleave/pjrt/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cleave/core/error.h"
#include "cleave/pjrt/client.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/transforms/compile.h"
#include "tests/pjrt/cpu_plugin.h"
#include "tests/pjrt/fake_plugins.h"

// Clients whose devices are spread over processes, with a plugin that has no compiler: it returns
// its arguments, or their sum over all devices.
namespace cleave::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Outcome {
  int status;
  std::string output;  // both streams
};

Outcome shell(const std::string& line) {
  FILE* pipe = popen(("(" + line + ") 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), count);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

const std::string kCommand = CLEAVE_COMMAND;

std::string launch(int ranks) { return kCommand + " launch -n " + std::to_string(ranks) + " -- "; }

std::string written(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

// Uneven over four devices.
std::string identity_module() {
  return written("spread_identity.mlir", R"(
sdy.mesh @mesh = <["x"=4]>
func.func @main(%x: tensor<10x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<10x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  return %x : tensor<10x3xf32>
}
)");
}

std::string sum_module() {
  return written("spread_sum.mlir", R"(
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%a: tensor<3xf32> {mhlo.sharding = "{manual}"}) -> (tensor<3xf32> {mhlo.sharding = "{manual}"}) {
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
)");
}

std::string engine_of(const std::string& plugin) { return " --engine xla:" + fake_plugin(plugin); }

// An address that was free a moment ago.
std::string free_address() { return TcpStore::Server("127.0.0.1:0").address(); }

// Processes 0 to n - 1 of one run, started by hand; the output is that of all, the status that of
// process 0.
Outcome by_hand(const std::string& arguments, int processes) {
  const std::string address = free_address();
  std::string line;
  for (int process = processes - 1; process >= 0; --process)
    line += kCommand + " " + arguments + " --coordinator " + address + " --process " +
            std::to_string(process) + " --processes " + std::to_string(processes) +
            (process ? " & " : "; status=$?; wait; exit $status");
  return shell(line);
}

TEST(SpreadClient, FeedsAndReadsTheShardsOfRanks) {
  const std::string run = " run " + identity_module() + " --arg 0=iota";
  const Outcome alone = shell(kCommand + run);
  EXPECT_EQ(alone.status, 0) << alone.output;
  for (int ranks : {2, 3, 4}) {
    const Outcome done =
        shell(launch(ranks) + "cleave" + run + " --shard annotations" + engine_of("fake_cpu"));
    EXPECT_EQ(done.status, 0) << done.output;
    EXPECT_EQ(done.output, alone.output) << ranks;
    const Outcome verified = shell(launch(ranks) + "cleave" + run + " --shard annotations --quiet" +
                                   " --verify --repeat 2" + engine_of("fake_cpu"));
    EXPECT_EQ(verified.status, 0) << verified.output;
    EXPECT_THAT(verified.output,
                AllOf(HasSubstr("verified: 1 results"), HasSubstr("2 runs: median")));
  }
}

TEST(SpreadClient, RunsTheTextOfEveryDeviceOverRanks) {
  const std::string run = " run " + sum_module() + " --arg 0=iota";
  const Outcome alone = shell(kCommand + run);
  EXPECT_EQ(alone.status, 0) << alone.output;
  for (int ranks : {2, 4}) {
    const Outcome done = shell(launch(ranks) + "cleave" + run + engine_of("fake_cpu"));
    EXPECT_EQ(done.status, 0) << done.output;
    EXPECT_EQ(done.output, alone.output) << ranks;
  }
  EXPECT_THAT(shell(launch(2) + "cleave" + run).output, HasSubstr("or say --engine xla"));
}

TEST(SpreadClient, IsMadeByProcessesThatWereStartedByHand) {
  for (const std::string& run :
       {"run " + identity_module() + " --arg 0=iota", "run " + sum_module() + " --arg 0=iota"}) {
    const bool sharded = run.find("identity") != std::string::npos;
    const Outcome alone = shell(kCommand + " " + run);
    const Outcome done =
        by_hand(run + (sharded ? " --shard annotations" : "") + engine_of("fake_cpu"), 2);
    EXPECT_EQ(done.status, 0) << done.output;
    EXPECT_EQ(done.output, alone.output);
  }
}

// A module of one device is run by every rank for itself, as by Cleave's engine.
TEST(SpreadClient, RunsOneDeviceOnEveryRank) {
  const std::string run = " run " + identity_module() + " --arg 0=iota";
  const Outcome done = shell(launch(2) + "cleave" + run + engine_of("fake_cpu"));
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_EQ(done.output, shell(kCommand + run).output);
}

TEST(SpreadClient, SaysWhatCannotBe) {
  const std::string run = "run " + identity_module() + " --arg 0=iota --quiet --shard annotations";
  const std::string reason =
      "error: the plugin fake_alone_cpu makes every process process 0 with "
      "devices of its own, so it cannot run over 2 processes; start one";
  EXPECT_THAT(shell(launch(2) + "cleave " + run + engine_of("fake_alone_cpu")).output,
              HasSubstr(reason));
  EXPECT_THAT(by_hand(run + engine_of("fake_alone_cpu"), 2).output, HasSubstr(reason));
  // A plugin of other devices than CPUs has as many as it has: here, one in each process.
  EXPECT_THAT(
      shell(launch(2) + "cleave " + run + engine_of("fake_other")).output,
      HasSubstr("fake_other: process 0 has 1 device, and a mesh of 4 over 2 processes needs "
                "2 there"));
  EXPECT_THAT(by_hand(run + engine_of("fake_cpu"), 5).output,
              HasSubstr("a mesh of 4 devices is not enough for 5 processes"));
  EXPECT_THAT(shell(kCommand + " " + run + " --coordinator 127.0.0.1:1 --process 3 --processes 2" +
                    engine_of("fake_cpu"))
                  .output,
              HasSubstr("CLEAVE_PROCESS must be a number from 0 to 1, and is '3'"));
  EXPECT_THAT(shell(kCommand + " " + run + " --coordinator nonsense --process 0 --processes 2" +
                    engine_of("fake_cpu"))
                  .output,
              HasSubstr("the address 'nonsense' of a key-value store is not HOST:PORT"));
  EXPECT_THAT(shell(kCommand + " " + run + " --coordinator 127.0.0.1:1").output,
              HasSubstr("--coordinator: it is for --engine xla"));
}

TEST(SpreadClient, RefusesXlasCpuPlugin) {
  NEED_CPU_PLUGIN();
  const Outcome done =
      shell(launch(2) + "cleave run " + identity_module() +
            " --arg 0=iota --quiet --shard annotations --engine xla:" + *cpu_plugin());
  EXPECT_NE(done.status, 0);
  EXPECT_THAT(done.output, HasSubstr("the plugin xla_cpu_pjrt makes every process process 0"));
}

// Runs in the processes that the next test starts.
TEST(SpreadOverProcesses, DISABLED_CompiledFunctions) {
  const Mesh mesh{{"x", 4}};
  const auto f =
      compile([](const Tensor& x) { return x; }, {.engine = "xla:" + fake_plugin("fake_cpu")});
  const Tensor x = randn({10, 3}, 1).shard(mesh, P("x", {})).evaluate();
  Tensor y = x;
  for (int i = 0; i < 3; ++i) {
    y = f(y);
    EXPECT_TRUE(y.record()->values[0].empty());  // nothing was fetched
  }
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(y.addressable_shards().size(), World::is_rank() ? 2u : 4u);
  // Without a mesh, every process runs it for itself.
  const Tensor whole = randn({4}, 2);
  EXPECT_EQ(f(whole).to_vector<float>(), whole.to_vector<float>());
}

TEST(SpreadClient, RunsCompiledFunctions) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string() +
                           " --gtest_filter=SpreadOverProcesses.* --gtest_color=no" +
                           " --gtest_also_run_disabled_tests";
  const Outcome ranks = shell(launch(2) + self);
  EXPECT_EQ(ranks.status, 0) << ranks.output;
  EXPECT_THAT(ranks.output, HasSubstr("[       OK ] SpreadOverProcesses."));
  const std::string settings =
      "export CLEAVE_COORDINATOR=" + free_address() + " CLEAVE_PROCESSES=2; ";
  const Outcome hand = shell(settings + "CLEAVE_PROCESS=1 " + self + " & " + settings +
                             "CLEAVE_PROCESS=0 " + self + "; status=$?; wait; exit $status");
  EXPECT_EQ(hand.status, 0) << hand.output;
  EXPECT_THAT(hand.output, AllOf(HasSubstr("[       OK ] SpreadOverProcesses."),
                                 testing::Not(HasSubstr("FAILED"))));
}

TEST(ClientOptions, AreReadFromText) {
  const auto options = options_of_text("a=false b=12  c=0.5 d=[0,3] e=name");
  ASSERT_EQ(options.size(), 5u);
  EXPECT_EQ(std::get<bool>(options[0].second), false);
  EXPECT_EQ(std::get<int64_t>(options[1].second), 12);
  EXPECT_EQ(std::get<float>(options[2].second), 0.5f);
  EXPECT_EQ(std::get<std::vector<int64_t>>(options[3].second), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(std::get<std::string>(options[4].second), "name");
  EXPECT_THROW(options_of_text("a"), UserError);
  EXPECT_THROW(options_of_text("a=[x]"), UserError);
}

}  // namespace
}  // namespace cleave::pjrt
