#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/temp_path.h"

// Whatever a user passes ends with one line and status 1: no signal, no "bug in cleave", no hang.
namespace cleave {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int status;        // that of the shell: 128 and more for a signal
  std::string text;  // both streams
};

Outcome cleave(const std::string& arguments) {
  const std::string command =
      "timeout 60 " + std::string(CLEAVE_COMMAND) + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  Outcome outcome;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

void expect_refused(const std::string& arguments, const std::string& message) {
  const Outcome outcome = cleave(arguments);
  EXPECT_EQ(outcome.status, 1) << arguments << "\n" << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr(message)) << arguments;
  EXPECT_THAT(outcome.text, Not(HasSubstr("internal error"))) << arguments;
}

class HostileInputs : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = temp_path(testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  // A function of one tensor<4xf32> with one op.
  std::string one(const std::string& name, const std::string& type, const std::string& op) const {
    return write(name, "func.func @main(%a: tensor<4xf32>) -> tensor<" + type +
                           "> {\n  %0 = " + op + "\n  return %0 : tensor<" + type + ">\n}\n");
  }

  std::filesystem::path folder_;
};

TEST_F(HostileInputs, EveryCommandVerifiesModules) {
  const std::string file =
      one("slice.mlir", "9xf32", "stablehlo.slice %a [-5:4] : (tensor<4xf32>) -> tensor<9xf32>");
  for (const std::string& command :
       {"run " + file + " --arg '*=ones'", "plan " + file + " --mesh x=2", "rules " + file,
        "explain " + file + " --trace", "discover " + file, "opt " + file,
        "run " + file + " --arg '*=ones' --split-input-file", "verify " + file + " --plan x.json",
        "run - --arg '*=ones' < " + file})
    expect_refused(command, "[-5:4:1] does not fit dimension 0 of tensor<4xf32>");
  EXPECT_EQ(cleave("opt --no-verify " + file).status, 0);
}

TEST_F(HostileInputs, GraphJsonIsVerifiedToo) {
  const std::string file =
      one("slice.mlir", "9xf32", "stablehlo.slice %a [-5:4] : (tensor<4xf32>) -> tensor<9xf32>");
  const std::string json = path("slice.json");
  ASSERT_EQ(cleave("opt --no-verify --json " + file + " -o " + json).status, 0);
  for (const std::string& command : {"run " + json + " --arg '*=ones'", "rules " + json,
                                     "plan " + json + " --mesh x=2", "explain " + json})
    expect_refused(command, "[-5:4:1] does not fit");
}

TEST_F(HostileInputs, DynamicSizesAreCheckedWhenTheyAreKnown) {
  const std::string file = write("dynamic.mlir", R"(
func.func @main(%a: tensor<4xf32>) -> tensor<9xf32> {
  %s = stablehlo.constant dense<4> : tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
  %1 = stablehlo.slice %0 [3:12] : (tensor<?xf32>) -> tensor<9xf32>
  return %1 : tensor<9xf32>
})");
  for (const char* how : {"", " --no-compile"})
    expect_refused("run " + file + " --arg 0=ones" + how,
                   "[3:12:1] does not fit dimension 0 of tensor<4xf32>");
}

TEST_F(HostileInputs, ChainsOfCallsAreBounded) {
  // Each function calls the next twice: 2^60 ops.
  std::string twice, deep;
  for (int i = 0; i < 60; ++i) {
    const std::string next = "@f" + std::to_string(i + 1);
    twice += "func.func @f" + std::to_string(i) +
             "(%a: tensor<f32>) -> tensor<f32> {\n  %0 = func.call " + next +
             "(%a) : (tensor<f32>) -> tensor<f32>\n  %1 = func.call " + next +
             "(%0) : (tensor<f32>) -> tensor<f32>\n  return %1 : tensor<f32>\n}\n";
  }
  twice += "func.func @f60(%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n";
  expect_refused("plan " + write("twice.mlir", twice) + " --mesh x=2 --entry f0",
                 "with its calls written out it has more than");
  for (int i = 0; i < 2000; ++i)
    deep += "func.func @f" + std::to_string(i) +
            "(%a: tensor<f32>) -> tensor<f32> {\n  %0 = func.call @f" + std::to_string(i + 1) +
            "(%a) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}\n";
  deep += "func.func @f2000(%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n";
  expect_refused("run " + write("deep.mlir", deep) + " --entry f0 --arg '*=ones'",
                 "calls are nested more than");
}

TEST_F(HostileInputs, SizesBeyondMemoryAreRefusedBeforeAnythingIsAllocated) {
  const std::string big =
      write("big.mlir", "func.func @f(%a: tensor<1000003x1000003xf32>) {\n return\n}\n");
  expect_refused("run " + big + " --arg '*=zeros'",
                 "the arguments of @f: 3.64 TiB are needed, and ");
  const std::string inside = one(
      "inside.mlir", "f32",
      "stablehlo.constant dense<0.0> : tensor<f32>\n  %b = stablehlo.broadcast_in_dim %0, dims = "
      "[] : (tensor<f32>) -> tensor<1000003x1000003xf32>\n  %c = stablehlo.iota dim = 0 : "
      "tensor<1000003x1000003xf32>\n  %d = stablehlo.add %b, %c : tensor<1000003x1000003xf32>\n  "
      "\"check.expect_eq\"(%d, %d) : (tensor<1000003x1000003xf32>, tensor<1000003x1000003xf32>) -> "
      "()");
  expect_refused("run " + inside + " --arg '*=zeros' --no-compile", "TiB are needed, and ");
  expect_refused("run 'model:mlp?d=4611686018427387904' --quiet", "must be at most");
  expect_refused("run 'model:mlp?d=1073741824' --quiet", "");
  expect_refused("plan 'model:mlp?layers=1000000000' --mesh x=2", "must be at most");
  expect_refused(
      "reshard --mesh x=2 --shape 4611686018427387904x8 --from '[{}, {}]' --to "
      "'[{\"x\"}, {}]'",
      "more elements than any memory holds");
  expect_refused("discover relu --shape 4611686018427387904", "more elements than any memory");
  expect_refused("discover relu --shape 1000000000", "give a smaller --shape");
}

TEST_F(HostileInputs, MeshesThatNobodyHas) {
  expect_refused("reshard --mesh x=1000000000 --shape 8x8 --from '[{}, {}]' --to '[{\"x\"}, {}]'",
                 "more than 1048576 devices");
  expect_refused("reshard --mesh x=0 --shape 8x8 --from '[{}, {}]' --to '[{\"x\"}, {}]'",
                 "must be at least 1");
  expect_refused("discover relu --mesh 0x0", "at least 2 devices each");
  expect_refused("discover relu --mesh 100000x100000", "at most 256 in all");
  expect_refused("discover relu --mesh 2x2x2", "two axes are needed");
  expect_refused("discover relu --world 4294967298", "at most 256 devices");
}

TEST_F(HostileInputs, MachinesThatNobodyBuilds) {
  const auto machine = [&](const std::string& body) {
    return "reshard --mesh x=2,y=4 --shape 16x16 --from '[{\"x\"}, {\"y\"}]' --to '[{\"y\"}, "
           "{\"x\"}]' --machine " +
           write("m.json", R"({"version":1,"base":"h100",)" + body + "}");
  };
  expect_refused(machine(R"("axes":{"x":{"all":{"latency_us":1e19,"gbps":25}}})"),
                 "latency_us is 1e+19; it must lie between");
  expect_refused(machine(R"("axes":{"x":{"all":{"latency_us":1,"gbps":1e-300}}})"), "must lie");
  expect_refused(machine(R"("memory_gbps":-1)"), "must not be negative");
  expect_refused(machine(R"("launch_us":1e300)"), "must lie between");
  expect_refused(machine(R"("launch_us":1e999)"), "m.json");
}

TEST_F(HostileInputs, PlansThatDoNotFitTheirModule) {
  const std::string module = one("tanh.mlir", "4xf32", "stablehlo.tanh %a : tensor<4xf32>");
  const std::string file = path("plan.json");
  ASSERT_EQ(cleave("plan " + module + " --mesh x=2 --out " + file).status, 0);
  nlohmann::ordered_json good;
  std::ifstream(file) >> good;
  const auto expect_bad = [&](auto change, const std::string& message) {
    nlohmann::ordered_json plan = good;
    change(plan);
    std::ofstream(path("bad.json")) << plan.dump();
    expect_refused("explain " + path("bad.json") + " --module " + module, message);
    expect_refused("explain " + path("bad.json") + " --op tanh.0 --module " + module, message);
    expect_refused("verify " + module + " --plan " + path("bad.json"), message);
    expect_refused("plan " + module + " --plan " + path("bad.json") + " --export jax", message);
  };
  expect_bad([](auto& p) { p["ops"]["tanh.0"]["results"] = nlohmann::json::array(); },
             "tanh.0 has 1 results here and 0 in the plan");
  expect_bad([](auto& p) { p["ops"]["tanh.0"]["operands"] = nlohmann::json::array(); },
             "tanh.0 has 1 operands here and 0 in the plan");
  expect_bad([](auto& p) { p["ops"]["tanh.0"]["results"][0] = "[{}, {}]"; },
             "a layout of 2 dimensions");
  expect_bad([](auto& p) { p["ops"]["tanh.0"]["results"][0] = ""; }, "no layout is given");
  expect_bad([](auto& p) { p["ops"].erase("return"); }, "there is no op return");
  expect_bad([](auto& p) { p["values"] = nlohmann::json::object(); }, "it has 0 values");
  expect_bad([](auto& p) { p["ops"]["tanh.0"]["seconds"] = -1; }, "not an amount");
  expect_bad([](auto& p) { p["totals"]["seconds"] = 1e300; }, "not an amount");
}

TEST_F(HostileInputs, FilesThatAreNone) {
  std::filesystem::create_symlink("loop", path("loop"));
  expect_refused("opt " + path("loop"), "Too many levels of symbolic links");
  expect_refused("opt " + path("nothing"), "No such file or directory");
  expect_refused("opt " + folder_.string(), "it is a folder");
  expect_refused("opt /dev/zero", "it is a device");
  expect_refused("opt /dev/null", "is empty");
  const std::string module = one("tanh.mlir", "4xf32", "stablehlo.tanh %a : tensor<4xf32>");
  expect_refused("verify " + module + " --plan /dev/zero", "it is a device");
  expect_refused("verify " + module + " --plan " + path("loop"), "symbolic links");
  expect_refused("run " + module + " --arg 0=/dev/zero.npy", "");
  expect_refused("plan " + module + " --mesh x=2 --machine /dev/zero", "it is a device");
  expect_refused("plan " + module + " --mesh x=2 --machine " + path("loop"), "symbolic links");
  expect_refused("solve " + folder_.string(), "it is a folder");
  // The pipe of a shell is read to its end.
  EXPECT_EQ(cleave("opt /dev/stdin < " + module).status, 0);
}

TEST_F(HostileInputs, TraceOfBranchesAndLoops) {
  const std::string module = write("case.mlir", R"(
func.func @main(%i: tensor<i32>, %a: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.tanh %a : tensor<64x64xf32>
    stablehlo.return %1 : tensor<64x64xf32>
  }, {
    stablehlo.return %a : tensor<64x64xf32>
  }) : (tensor<i32>) -> tensor<64x64xf32>
  %2 = stablehlo.optimization_barrier %0 : tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
})");
  const Outcome outcome = cleave("explain " + module + " --trace");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("nothing reached"));
}

TEST_F(HostileInputs, QuantizedBitsAreNotDividedByZero) {
  EXPECT_EQ(cleave("opt " + write("bits.mlir", R"(
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<2xi8> {
  %0 = "stablehlo.bitcast_convert"(%a) : (tensor<2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<2xi8>
  return %0 : tensor<2xi8>
})"))
                .status,
            0);
}

TEST_F(HostileInputs, APipeThatSomebodyWritesToIsRead) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const std::string module = one("tanh.mlir", "4xf32", "stablehlo.tanh %a : tensor<4xf32>");
  const Outcome outcome =
      cleave("opt " + path("pipe") + " & cat " + module + " > " + path("pipe") + "; wait $!");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("stablehlo.tanh"));
}

TEST_F(HostileInputs, AProblemThatInflatesWithoutEnd) {
  const std::string bomb = path("bomb.json.gz");
  const std::string make = "head -c 50000000 /dev/zero | gzip > " + bomb;
  ASSERT_EQ(std::system(make.c_str()), 0);
  expect_refused("solve " + bomb, "it inflates to more than 250 times its size");
}

TEST_F(HostileInputs, TextThatIsNestedTooDeeply) {
  std::string tuples = "func.func @f(%a: ";
  for (int i = 0; i < 100000; ++i) tuples += "tuple<";
  expect_refused("opt " + write("tuples.mlir", tuples), "nested too deeply");
  expect_refused("opt " + write("lists.mlir", "module attributes {a = " + std::string(100000, '[')),
                 "nested too deeply");
  expect_refused("run " + write("lists.json", "{\"format\": " + std::string(1000000, '[')),
                 "graph JSON");
}

TEST_F(HostileInputs, ACommandThatDoesNotAnswer) {
  expect_refused("discover --command 'sleep 1000' --shape 4 --timeout 0.2",
                 "'sleep 1000' did not answer within 0.2 s");
  // One that answers nothing and closes its output, but lives on.
  expect_refused("discover --command 'exec 0<&- 1>&-; sleep 1000' --shape 4 --timeout 5",
                 "closed its output instead of answering");
}

}  // namespace
}  // namespace cleave
