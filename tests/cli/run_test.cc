#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "cleave/kernels/array_text.h"
#include "cleave/runtime/npy.h"
#include "tests/support/temp_path.h"

namespace cleave {
namespace {

using testing::HasSubstr;

struct Outcome {
  int status;
  std::string text;  // both streams
};

// Runs `cleave run` on a module with the given options.
Outcome run(const std::string& module, const std::string& options = "") {
  const std::string file = temp_path("cleave_run_test.mlir");
  std::ofstream(file) << module;
  const std::string command =
      std::string(CLEAVE_COMMAND) + " run " + file + " " + options + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  Outcome outcome;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), n);
  outcome.status = pclose(pipe) >> 8;
  return outcome;
}

constexpr const char* kDouble = R"(
func.func @main(%x: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %0 = stablehlo.add %x, %x : tensor<2x2xi32>
  return %0 : tensor<2x2xi32>
})";

TEST(Run, PrintsResults) {
  const Outcome outcome = run(kDouble, "--arg 0=iota");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.text, "tensor<2x2xi32> {\n  [\n    [0, 2],\n    [4, 6]\n  ]\n}\n");
}

TEST(Run, AnotherMeshThanThatOfTheAnnotationsIsAnError) {
  const std::string module = R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xi32> {
  %0 = stablehlo.add %x, %x : tensor<4xi32>
  return %0 : tensor<4xi32>
})";
  const Outcome wrong = run(module, "--arg 0=iota --shard annotations --mesh y=3");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.text, HasSubstr("the module's annotations are of @mesh = <[\"x\"=2]>"));
  EXPECT_EQ(run(module, "--arg 0=iota --shard annotations --mesh x=2 --verify").status, 0);
}

TEST(Run, ReadsAndWritesNpy) {
  const std::filesystem::path dir = temp_path("cleave_run_out");
  std::filesystem::create_directories(dir);
  const int32_t values[] = {1, 2, 3, 4};
  save_npy(dir / "x.npy", Array::from_bytes(DType::I32, {2, 2}, values));
  const Outcome outcome =
      run(kDouble, "--quiet --arg 0=" + (dir / "x.npy").string() + " --out " + dir.string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(to_text(load_npy(dir / "result_0.npy")),
            "tensor<2x2xi32> {\n  [\n    [2, 4],\n    [6, 8]\n  ]\n}");
}

TEST(Run, AFolderThatCannotBeMadeIsAnError) {
  const Outcome outcome = run(kDouble, "--quiet --arg 0=iota --out /dev/null/results");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text, HasSubstr("--out /dev/null/results"));
}

TEST(Run, TheTraceSaysWhatIsSentAndWhy) {
  const std::string module = R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.tanh %0 : tensor<f32>
  return %1 : tensor<f32>
})";
  for (const char* how : {"", " --no-compile"})
    EXPECT_THAT(
        run(module, std::string("--arg 0=iota --shard annotations --trace --quiet") + how).text,
        HasSubstr("cleave.all_reduce  tensor<f32>  over \"x\" for stablehlo.tanh"));
}

TEST(Run, SumsOf16BitsMoveFourBytesOrTwo) {
  const std::string module = R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %b: tensor<4x8xbf16>) -> tensor<8x8xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x4xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  return %0 : tensor<8x8xbf16>
})";
  const std::string options = "--arg '*=random:1' --shard annotations --communication --quiet";
  EXPECT_THAT(run(module, options).text, HasSubstr("256 B  for func.return"));
  EXPECT_THAT(run(module, options + " --narrow-sums").text, HasSubstr("128 B  for func.return"));
}

TEST(Run, StatisticsCountOps) {
  EXPECT_THAT(run(kDouble, "--quiet --arg 0=zeros --stats --no-compile").text,
              HasSubstr("stablehlo.add"));
  const std::string compiled = run(kDouble, "--quiet --arg 0=zeros --stats").text;
  EXPECT_THAT(compiled, HasSubstr("cleave.fusion"));
  EXPECT_THAT(compiled, HasSubstr("memory of a device"));
}

TEST(Run, AFailedCheckIsExitStatusOne) {
  const Outcome outcome = run(R"(
func.func @only() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  check.expect_eq_const %0, dense<[1, 3]> : tensor<2xi32>
  return
})");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.text, "error: check.expect_eq_const: element [1] is 2, expected 3\n");
}

TEST(Run, SaysWhatIsMissing) {
  const Outcome no_argument = run(kDouble);
  EXPECT_EQ(no_argument.status, 1);
  EXPECT_THAT(no_argument.text, HasSubstr("argument 0 of @main, tensor<2x2xi32>, is not given"));
  EXPECT_THAT(run(kDouble, "--arg 0=fives").text, HasSubstr("'fives' says nothing about an array"));
  EXPECT_THAT(run(kDouble, "--arg 0=iota --arg 1=iota").text,
              HasSubstr("--arg 1=iota: @main has no argument '1'; it takes one, 0"));
  EXPECT_THAT(run(kDouble, "--arg x=iota").text, HasSubstr("@main has no argument 'x'"));
  EXPECT_THAT(run(kDouble, "--arg 0=iota --arg 0=ones").text, HasSubstr("'0' is given twice"));
  EXPECT_THAT(run(kDouble, "--arg 0=iota --mesh x=1000000 --shard random:1").text,
              HasSubstr("1000000 devices; at most 4096 are run"));
  EXPECT_THAT(run(kDouble, "--entry f --arg 0=iota").text, HasSubstr("there is no function @f"));
  const Outcome several = run(R"(
func.func @f() { return }
func.func @g() { return })");
  EXPECT_THAT(several.text, HasSubstr("say which function to run with --entry: @f @g"));
}

TEST(Run, ShardedRunsGiveTheSame) {
  const Outcome outcome = run(kDouble, "--arg 0=iota --mesh x=3 --shard random:1 --verify");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("[4, 6]"));
}

}  // namespace
}  // namespace cleave
