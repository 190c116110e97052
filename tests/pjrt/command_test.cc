#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "tests/pjrt/cpu_plugin.h"
#include "tests/pjrt/fake_plugins.h"

// `cleave devices`, and `cleave run --engine`.
namespace cleave::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int status;
  std::string output;  // both streams
};

Outcome run(const std::string& arguments) {
  FILE* pipe = popen((std::string(CLEAVE_COMMAND) + " " + arguments + " 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), count);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

std::string engine() { return " --engine xla:" + *cpu_plugin(); }

// Uneven over two and four devices.
std::string module_file() {
  const std::string path = testing::TempDir() + "xla_command.mlir";
  std::ofstream(path) << R"(
func.func @main(%x: tensor<7x6xf32>, %w: tensor<6x5xf32>) -> (tensor<7x5xf32>, tensor<5xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<7x6xf32>, tensor<6x5xf32>) -> tensor<7x5xf32>
  %1 = stablehlo.tanh %0 : tensor<7x5xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<7x5xf32>, tensor<f32>) -> tensor<5xf32>
  return %1, %2 : tensor<7x5xf32>, tensor<5xf32>
}
)";
  return path;
}

TEST(DevicesCommand, ListsPluginsGoodAndBad) {
  const Outcome good = run("devices " + fake_plugin("fake_cpu") + " --cpu-devices 3");
  EXPECT_EQ(good.status, 0);
  EXPECT_THAT(good.output,
              AllOf(HasSubstr("interface  PJRT C 0.81"), HasSubstr("platform   fake"),
                    HasSubstr("devices    3 x fake, 1.00 GiB of memory, 1.0 MiB in use")));
  const Outcome bad = run("devices " + fake_plugin("fake_old"));
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.output, HasSubstr("error: PJRT plugin"));
  // Of those that were found, one that does not work does not hide the others.
  const Outcome listed = run("devices");
  EXPECT_EQ(listed.status, 0);
}

TEST(RunCommand, SaysWhatIsWrongWithAnEngine) {
  const std::string file = module_file() + " --arg '*=random:1' --quiet";
  EXPECT_THAT(run("run " + file + " --engine gpu").output,
              HasSubstr("error: there is no engine 'gpu'; say cleave, xla"));
  EXPECT_THAT(run("run " + file + " --engine xla:/no/plugin.so").output,
              HasSubstr("error: PJRT plugin /no/plugin.so: there is no such file"));
  EXPECT_THAT(run("run " + file + " --engine xla:" + fake_plugin("no_entry_point")).output,
              HasSubstr("is not a PJRT plugin"));
  EXPECT_THAT(run("run " + file + " --repeat 3").output, HasSubstr("--repeat: it is for --engine"));
  EXPECT_THAT(run("run " + file + " --engine xla --trace").output,
              HasSubstr("--trace: it is about Cleave's own engine"));
}

TEST(RunCommand, RunsOnOneDeviceOfXla) {
  NEED_CPU_PLUGIN();
  const Outcome done = run("run " + module_file() + " --arg '*=random:1' --quiet --verify --stats" +
                           " --repeat 2" + engine());
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("verified: 2 results are the same on one device of Cleave's own"),
                    HasSubstr("1 device; memory of each: 288 B of arguments"),
                    HasSubstr("2 runs: median"), Not(HasSubstr("cpu_device_count"))));
}

// Checks are Cleave's, numbers are XLA's.
TEST(RunCommand, EvaluatesChecksOfAModule) {
  NEED_CPU_PLUGIN();
  const auto with = [](const char* expected) {
    const std::string path = testing::TempDir() + "xla_checks.mlir";
    std::ofstream(path) << "func.func @main() -> tensor<2xi32> {\n"
                           "  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n"
                           "  %1 = stablehlo.add %0, %0 : tensor<2xi32>\n"
                           "  check.expect_eq_const %1, dense<"
                        << expected
                        << "> : tensor<2xi32>\n"
                           "  stablehlo.custom_call @check.expect_eq(%1, %1) {has_side_effect = "
                           "true} : (tensor<2xi32>, tensor<2xi32>) -> ()\n"
                           "  return %1 : tensor<2xi32>\n}\n";
    return run("run " + path + engine());
  };
  const Outcome right = with("[2, 4]"), wrong = with("[2, 5]");
  EXPECT_EQ(right.status, 0) << right.output;
  EXPECT_THAT(right.output, HasSubstr("[2, 4]"));
  EXPECT_EQ(wrong.status, 1) << wrong.output;
}

TEST(RunCommand, RunsShardedByXla) {
  NEED_CPU_PLUGIN();
  for (const char* mesh : {"x=2", "x=2,y=4"})
    for (const char* seed : {"1", "2", "3"}) {
      const Outcome done =
          run("run " + module_file() + " --arg '*=random:1' --quiet --verify" +
              " --communication --mesh " + mesh + " --shard random:" + seed + engine());
      EXPECT_EQ(done.status, 0) << done.output;
      EXPECT_THAT(done.output,
                  AllOf(HasSubstr("verified: 2 results"),
                        HasSubstr("collective             executions     received  over")));
    }
}

// What `cleave opt` prints is what XLA runs: the same text by both engines.
TEST(RunCommand, RunsTheTextOfEveryDevice) {
  NEED_CPU_PLUGIN();
  const std::string spmd = testing::TempDir() + "xla_spmd.mlir";
  std::ofstream(spmd) << R"(
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%a: tensor<2xf32> {mhlo.sharding = "{manual}"}) -> (tensor<2xf32> {mhlo.sharding = "{manual}"}) {
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
)";
  const Outcome ours = run("run " + spmd + " --arg 0=iota");
  const Outcome theirs = run("run " + spmd + " --arg 0=iota" + engine());
  EXPECT_EQ(ours.status, 0) << ours.output;
  EXPECT_EQ(ours.output, theirs.output);
  EXPECT_THAT(ours.output, HasSubstr("tensor<4x2xf32>"));
}

TEST(CalibrateCommand, MeasuresThroughAnEngine) {
  NEED_CPU_PLUGIN();
  const std::string kept = testing::TempDir() + "xla_measured.json";
  const std::string out = testing::TempDir() + "xla_profile.json";
  const Outcome done =
      run("calibrate --quick --base h100 --keep " + kept + " --out " + out + engine());
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("kernels and 0 collectives with PJRT cpu"), HasSubstr("product f32"),
                    Not(HasSubstr("product bf16")), HasSubstr("a profile of XLA on a CPU is rough"),
                    HasSubstr("wrote ")));
  const Outcome again = run("calibrate --base h100 --from " + kept);
  EXPECT_EQ(again.status, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("convolution f32"));
  EXPECT_THAT(run("calibrate --engine cleave --base h100").output, HasSubstr("--engine cleave"));
}

}  // namespace
}  // namespace cleave::pjrt
