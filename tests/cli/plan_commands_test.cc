#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_path.h"

// plan, verify, explain and calibrate as a user runs them, one after the other.
namespace cleave {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int status;
  std::string text;  // both streams
};

Outcome cleave(const std::string& arguments) {
  FILE* pipe = popen((std::string(CLEAVE_COMMAND) + " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  Outcome outcome;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), n);
  outcome.status = pclose(pipe) >> 8;
  return outcome;
}

class PlanCommands : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(module_) << R"(
func.func @main(%x: tensor<512x1024xf32>, %w: tensor<1024x4096xf32>, %v: tensor<4096x1024xf32>) -> tensor<512x1024xf32> {
  %0 = stablehlo.dot %x, %w : (tensor<512x1024xf32>, tensor<1024x4096xf32>) -> tensor<512x4096xf32>
  %1 = stablehlo.tanh %0 : tensor<512x4096xf32>
  %2 = stablehlo.dot %1, %v : (tensor<512x4096xf32>, tensor<4096x1024xf32>) -> tensor<512x1024xf32>
  return %2 : tensor<512x1024xf32>
})";
    const Outcome made =
        cleave("plan " + module_ + " --mesh data=2,model=2 --machine h100 --out " + plan_);
    ASSERT_EQ(made.status, 0) << made.text;
  }
  const std::string module_ = temp_path("plan_commands.mlir");
  const std::string plan_ = temp_path("plan_commands.json");
};

TEST_F(PlanCommands, VerifyRunsThePlan) {
  const Outcome good = cleave("verify " + module_ + " --plan " + plan_);
  EXPECT_EQ(good.status, 0) << good.text;
  EXPECT_THAT(good.text, HasSubstr("\nverified\n"));
  EXPECT_THAT(good.text, HasSubstr("memory of a device: measured"));
  // Of another module.
  const std::string other = temp_path("plan_commands_other.mlir");
  std::ofstream(other) << "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                          "  return %x : tensor<4xf32>\n}";
  EXPECT_EQ(cleave("verify " + other + " --plan " + plan_).status, 1);
}

TEST_F(PlanCommands, TimelineIsThePredictedSchedule) {
  const std::string file = temp_path("plan_commands_timeline.json");
  const std::string plan = "plan " + module_ + " --machine h100 --timeline " + file;
  const Outcome made = cleave(plan +
                              " --mesh data=2,model=2 --pin 'x=[{\"data\"}, {}]' --pin "
                              "'w=[{}, {\"model\"}]' --pin 'v=[{\"model\"}, {}]'");
  ASSERT_EQ(made.status, 0) << made.text;
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(text, HasSubstr("\"traceEvents\""));
  EXPECT_THAT(text, HasSubstr("inside a node"));
  EXPECT_THAT(text, HasSubstr("stablehlo.dot"));
  const Outcome several = cleave(plan + " --devices 4");
  EXPECT_EQ(several.status, 1);
  EXPECT_THAT(several.text, HasSubstr("--timeline"));
  EXPECT_THAT(several.text, HasSubstr("give one --mesh"));
}

TEST_F(PlanCommands, ExplainSaysWhatAndWhy) {
  // The plan knows where its module is; while it is somewhere else, it has to be told.
  EXPECT_THAT(cleave("explain " + plan_).text, HasSubstr("how arguments lie"));
  const std::string moved = module_ + ".moved";
  std::filesystem::rename(module_, moved);
  EXPECT_THAT(cleave("explain " + plan_).text, HasSubstr("the dearest ops:"));
  EXPECT_THAT(cleave("explain " + plan_).text, HasSubstr("cannot be read"));
  EXPECT_THAT(cleave("explain " + plan_ + " --op dot.0").text, HasSubstr("--module FILE"));
  EXPECT_EQ(cleave("explain " + plan_ + " --module " + moved).status, 0);
  std::filesystem::rename(moved, module_);
  const Outcome whole = cleave("explain " + plan_ + " --module " + module_);
  EXPECT_EQ(whole.status, 0) << whole.text;
  for (const char* part : {"time\n", "the ten dearest:", "memory of a device", "how matmuls run"})
    EXPECT_THAT(whole.text, HasSubstr(part));
  EXPECT_THAT(cleave("explain " + plan_ + " --module " + module_ + " --op dot.0").text,
              HasSubstr("ways to run it"));
  const Outcome unknown = cleave("explain " + plan_ + " --module " + module_ + " --op dot.7");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.text, HasSubstr("the plan has no op 'dot.7'; near to it are dot.0, dot.1, "));
  EXPECT_THAT(cleave("explain " + module_ + " --op dot.0").text, HasSubstr("are for plans"));
}

TEST_F(PlanCommands, PinsForbidAndReplicate) {
  const std::string plan = "plan " + module_ + " --mesh data=2,model=2 ";
  const Outcome outcome = cleave(plan + "--forbid '*=model' --replicate w --export jax");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("P(),  # w\n"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("P(\"model\"")));
  const std::string file = temp_path("plan_commands_pins.txt");
  std::ofstream(file)
      << "# all of the weights\nreplicate w\n\nforbid v=data\nx=[{\"data\"}, {?}]\n";
  const Outcome read = cleave(plan + "--pin @" + file + " --export jax");
  EXPECT_THAT(read.text, HasSubstr("P(),  # w\n"));
  EXPECT_THAT(read.text, HasSubstr("    P(\"data\""));
  EXPECT_THAT(cleave(plan + "--forbid w=dta").text, HasSubstr("the mesh has no axis 'dta'"));
  EXPECT_THAT(cleave(plan + "--replicate u").text, HasSubstr("no value is called so"));
  const Outcome tight = cleave(plan + "--memory 76MiB --replicate w --replicate v --replicate x");
  EXPECT_EQ(tight.status, 3);
  EXPECT_THAT(tight.text,
              HasSubstr("no plan fits 76.00 MiB, of which programs can use 57.00 MiB\n"));
  EXPECT_THAT(tight.text, HasSubstr("the pin replicate w (16.00 MiB on each device)\n"));
  EXPECT_THAT(tight.text, Not(HasSubstr("replicate x")));
}

// --memory is what a device has; an executor leaves a share of it to programs.
TEST_F(PlanCommands, ExecutorsKeepMemoryForThemselves) {
  const std::string plan = "plan " + module_ + " --mesh data=2,model=2 ";
  EXPECT_THAT(cleave(plan).text,
              HasSubstr(", limit 80.00 GiB, of which programs can use 60.00 GiB\n"));
  EXPECT_THAT(cleave(plan + "--memory 40GiB --memory-share 0.9").text,
              HasSubstr(", limit 40.00 GiB, of which programs can use 36.00 GiB\n"));
  EXPECT_THAT(cleave(plan + "--memory 40GiB --memory-share 1").text,
              HasSubstr(", limit 40.00 GiB\n"));
  const std::string machine = temp_path("plan_commands_machine.json");
  std::ofstream(machine) << R"({"base": "h100", "executor": {"memory_share": 0.5}})";
  EXPECT_THAT(cleave(plan + "--machine " + machine).text,
              HasSubstr(", limit 80.00 GiB, of which programs can use 40.00 GiB\n"));
  std::ofstream(machine) << R"({"base": "h100", "executor": ""})";
  EXPECT_THAT(cleave(plan + "--machine " + machine).text, HasSubstr(", limit 80.00 GiB\n"));
  // All of it is in units of --memory: what is enough can be given as it is printed.
  const Outcome tight = cleave(plan + "--memory 4MiB");
  EXPECT_EQ(tight.status, 3);
  EXPECT_THAT(tight.text, HasSubstr("no plan fits 4.00 MiB, of which programs can use 3.00 MiB\n"));
  EXPECT_THAT(tight.text, testing::ContainsRegex(
                              "  [0-9.]+ MiB is enough, of which programs can use [0-9.]+ MiB\n"));
  // Rows of several limits have what was asked for.
  const Outcome several = cleave(plan + "--memory 40GiB,80GiB");
  EXPECT_THAT(several.text, HasSubstr("\nwithin 40.00 GiB: "));
  EXPECT_THAT(several.text, HasSubstr("\nwithin 80.00 GiB: "));
}

TEST_F(PlanCommands, ObjectivesHaveTheirUnits) {
  const std::string plan = "plan 'model:mlp?step=train' --mesh x=4 --memory 2MiB --memory-share 1 ";
  EXPECT_THAT(cleave(plan + "--objective bytes").text, HasSubstr("received by a device, at least"));
  EXPECT_THAT(cleave(plan + "--objective sum").text, HasSubstr("without overlap, at least"));
  EXPECT_THAT(cleave(plan + "--objective speed").text,
              HasSubstr("objective 'speed': there are step, sum and bytes"));
}

TEST_F(PlanCommands, WhatMakesNoSenseIsSaid) {
  const std::string plan = "plan " + module_ + " ";
  auto says = [&](const std::string& arguments, const char* what) {
    const Outcome outcome = cleave(plan + arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_THAT(outcome.text, HasSubstr(what)) << arguments;
  };
  says("--devices -4", "--devices -4: a positive number of devices is needed");
  says("--mesh x=2 --memory 1e30GiB", "more than any device has");
  says("--mesh x=2 --memory 80gib", "expected a number with B, KB");
  says("--mesh x=2 --memory-share 1.2", "--memory-share 1.2: it must be above 0 and at most 1");
  says("--mesh x=2 --memory-share 0", "--memory-share 0: it must be above 0 and at most 1");
  says("--mesh x=2 --time 0", "it must be more than 0 s");
  says("--mesh x=2 --machine z100", "unknown machine 'z100'");
  says("--mesh x=2 --out /nonexistent/plan.json", "/nonexistent/plan.json: cannot be written");
  EXPECT_EQ(cleave("plan --diff " + plan_ + " " + plan_).text, "no difference\n");
  const std::string broken = temp_path("plan_commands_broken.json");
  std::ofstream(broken) << "{\"format\": \"cleave-plan\", \"version\": 1, ";
  for (const std::string& command : {"verify " + module_ + " --plan " + broken, "explain " + broken,
                                     "plan --diff " + broken + " " + plan_}) {
    const Outcome outcome = cleave(command);
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.text, HasSubstr(broken + ": this is no plan")) << command;
  }
}

TEST_F(PlanCommands, SubAxesArePlannedAndVerified) {
  const std::string module = temp_path("plan_commands_sub.mlir");
  std::ofstream(module) << R"(
func.func @main(%x: tensor<2x4x64xf32>) -> tensor<2x4x64xf32> {
  %0 = stablehlo.reverse %x, dims = [2] : tensor<2x4x64xf32>
  %1 = stablehlo.tanh %0 : tensor<2x4x64xf32>
  return %1 : tensor<2x4x64xf32>
})";
  const std::string made = temp_path("plan_commands_sub.json");
  const Outcome planned = cleave(
      "plan " + module +
      " --mesh model=8 --sub-axes --pin 'x=[{\"model\":(1)2}, {\"model\":(2)4}, {}]' --out " +
      made);
  EXPECT_EQ(planned.status, 0) << planned.text;
  const Outcome good = cleave("verify " + module + " --plan " + made);
  EXPECT_EQ(good.status, 0) << good.text;
  EXPECT_THAT(cleave("plan " + module + " --plan " + made + " --export sdy").text,
              HasSubstr(R"("model":(1)2)"));
}

// An unwritable place is noticed before the work.
TEST(SolveCommand, WritesTheChoiceWhereItCan) {
  const std::string instance = temp_path("solve_command.json");
  std::ofstream file(instance);
  file
      << R"({"problem": {"name": "p", "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 2], [3, 4]],)"
      << R"( "usages": [[5, 1], [5, 1]]}, "edges": {"nodes": [[0, 1]], "costs": [[0, 7, 7, 0]]},)"
      << R"( "usage_limit": 8}})";
  file.close();
  const Outcome nowhere = cleave("solve " + instance + " --solution /nonexistent/s.json");
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_EQ(nowhere.text,
            "error: /nonexistent/s.json: cannot be written: No such file or directory\n");
  const std::string solution = temp_path("solve_command.txt");
  const Outcome solved = cleave("solve " + instance + " --quiet --solution " + solution);
  EXPECT_THAT(solved.text, HasSubstr("\"cost\": 6, \"lower_bound\": 6"));
  std::string text;
  std::getline(std::ifstream(solution) >> std::ws, text);
  EXPECT_EQ(text, "[1, 1]");
}

// The scripts that users run on their own GPUs; tests/reference runs them.
TEST(Calibrate, PrintsScripts) {
  const Outcome jax = cleave("calibrate --emit jax"), torch = cleave("calibrate --emit torch");
  EXPECT_EQ(jax.status, 0);
  EXPECT_THAT(jax.text, testing::StartsWith("#!/usr/bin/env python3\n"));
  EXPECT_THAT(jax.text, HasSubstr("\nimport jax\n"));
  EXPECT_THAT(jax.text, testing::EndsWith("\n    main()\n"));
  EXPECT_THAT(torch.text, HasSubstr("\nimport torch\n"));
  EXPECT_THAT(cleave("calibrate --emit tf").text, HasSubstr("--emit tf: there are jax and torch"));
}

TEST(Calibrate, FitsWhatWasMeasured) {
  const std::string file = temp_path("plan_commands_measured.json");
  const std::string profile = temp_path("plan_commands_fitted.json");
  auto write = [&](const std::string& device, const std::string& kernels) {
    std::ofstream(file) << R"({"format": "cleave-measurements", "version": 1, "framework": "jax",)"
                        << R"( "executor": "xla-gpu", "units": 132, "device": ")" << device
                        << R"(", "kernels": [)" << kernels << R"(], "collectives": []})";
  };
  // 1 GB in 1 ms and a launch of 2 us, which is 3.2 us in a step (docs/guide/machines.md).
  const std::string kernels =
      R"({"kind": "elementwise", "dtype": "f32", "bytes": 1e9, "us": 1002},)"
      R"({"kind": "launch", "dtype": "f32", "kernels": 10, "us": 20})";
  write("NVIDIA H200", kernels);
  const Outcome fitted = cleave("calibrate --from " + file + " -o " + profile);
  EXPECT_EQ(fitted.status, 0) << fitted.text;
  EXPECT_THAT(fitted.text, testing::ContainsRegex("memory_gbps +4240 +1000\n"));
  EXPECT_THAT(fitted.text, testing::ContainsRegex("executor.launch_us +2.3 +3.2\n"));
  EXPECT_THAT(fitted.text, testing::ContainsRegex("elementwise f32 +1 +0% +0%"));
  EXPECT_THAT(fitted.text, HasSubstr("wrote " + profile));
  write("A100 of ours", kernels);
  EXPECT_THAT(cleave("calibrate --from " + file).text, HasSubstr("nothing was written"));
  write("Abacus", kernels);
  EXPECT_THAT(cleave("calibrate --from " + file).text,
              HasSubstr("'Abacus' is none of the machines that are built in; name the one that is "
                        "most like it: --base h100"));
  EXPECT_EQ(cleave("calibrate --from " + file + " --base b200").status, 0);
  write("H100", R"({"kind": "elementwise", "dtype": "f32", "bytes": 1e9})");
  const Outcome bad = cleave("calibrate --from " + file);
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(bad.text, "error: " + file + ": measurements: kernels[0] has no \"us\"\n");
  EXPECT_EQ(cleave("calibrate --from /nonexistent.json").status, 1);
  EXPECT_EQ(cleave("calibrate --base h100").status, 2);
}

TEST(Calibrate, WritesAProfileThatPlansUse) {
  const std::string profile = temp_path("plan_commands_host.json");
  const Outcome outcome = cleave("calibrate --seconds 3 --devices 2 --out " + profile);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("measured  predicted"));
  EXPECT_EQ(cleave("reshard --shape 1024x1024 --mesh x=2 --from '[{\"x\"}, {}]' --to '[{}, {}]' "
                   "--machine " +
                   profile)
                .status,
            0);
  EXPECT_EQ(cleave("calibrate --seconds 0").status, 1);
}

}  // namespace
}  // namespace cleave
