// Words on the command line that nobody knows, and meshes that are not the module's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/temp_path.h"

namespace cleave {
namespace {

using testing::HasSubstr;

struct CommandEnd {
  int status;
  std::string text;  // both streams
};

CommandEnd command(const std::string& arguments) {
  FILE* pipe =
      popen((std::string(CLEAVE_COMMAND) + " " + arguments + " 2>&1 < /dev/null").c_str(), "r");
  std::array<char, 4096> buffer;
  CommandEnd end;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    end.text.append(buffer.data(), n);
  end.status = pclose(pipe) >> 8;
  return end;
}

TEST(Arguments, UnknownWordsAreNamedWithANearOne) {
  const std::array<std::array<std::string, 2>, 14> cases = {{
      {"frobnicate", "error: there is no command 'frobnicate'; see cleave --help\n"},
      {"plna x", "error: there is no command 'plna' (did you mean plan?); see cleave --help\n"},
      {"rnu m.mlir --verify", "error: there is no command 'rnu' (did you mean run?)"},
      {"--hlep", "there is no option --hlep (did you mean --help?); see cleave --help\n"},
      {"run --frob m.mlir", "error: there is no option --frob; see cleave run --help\n"},
      {"run m.mlir --verfy", "there is no option --verfy (did you mean --verify?)"},
      {"run m.mlir --msh=x=2", "there is no option --msh (did you mean --mesh?)"},
      {"plan --mehs x=2 m.mlir", "there is no option --mehs (did you mean --mesh?)"},
      {"plan a b", "error: 'b' is an argument too many; see cleave plan --help\n"},
      {"verify m.mlir --plam p", "there is no option --plam (did you mean --plan?)"},
      {"launch --rank 2 -- cleave run m", "there is no option --rank (did you mean --ranks?)"},
      {"opt -frobnicate m.mlir", "unknown pass or option '-frobnicate'; cleave opt --list-passes"},
      {"opt -cleave-partiton m", "'-cleave-partiton' (did you mean -cleave-partition?)"},
      {"opt --timin m.mlir", "'--timin' (did you mean --timing?)"},
  }};
  for (const auto& [arguments, says] : cases) {
    const CommandEnd end = command(arguments);
    EXPECT_EQ(end.status, 2) << arguments << ": " << end.text;
    EXPECT_EQ(std::count(end.text.begin(), end.text.end(), '\n'), 1) << end.text;
    EXPECT_THAT(end.text, HasSubstr(says)) << arguments;
  }
}

// None is accepted and ignored.
TEST(IdleOptions, AreRefused) {
  for (const char* arguments : {
           "plan model:mlp --mesh x=2 --axes 1",
           "plan model:mlp --mesh x=2 --json --export jax",
           "plan model:mlp --devices 2 --json",
           "plan model:mlp --mesh x=2 --plan plan.json",
           "plan --diff a.json b.json --mesh x=2",
           "run model:mlp --quiet --no-compile --timing",
           "run model:mlp --quiet --narrow-sums",
           "run model:mlp --quiet --split-input-file",
           "discover relu --diff",
           "discover relu --mesh 2x2 --emit cleave",
           "discover relu --format markdown",
           "discover relu --every-witness",
           "discover --all relu",
           "ops --tested FILE",
           "reshard --mesh x=2 --shape 8 --from '[{}]' --to '[{\"x\"}]' --memory 1GiB --via "
           "all_slice='[{\"x\"}]'",
       }) {
    const CommandEnd end = command(arguments);
    EXPECT_THAT(end.status, testing::AnyOf(1, 2)) << arguments << ": " << end.text;
    EXPECT_THAT(end.text, HasSubstr("--")) << arguments;
  }
}

TEST(Arguments, TheVersionIsOneLine) {
  const CommandEnd end = command("--version");
  EXPECT_EQ(end.status, 0);
  EXPECT_TRUE(end.text.starts_with("cleave ")) << end.text;
  EXPECT_EQ(std::count(end.text.begin(), end.text.end(), '\n'), 1) << end.text;
}

class AnnotatedMesh : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(file_) << R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = stablehlo.tanh %x : tensor<8x8xf32>
  %z = sdy.sharding_constraint %y <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
})";
  }
  const std::string file_ = temp_path("annotated_mesh.mlir");
};

TEST_F(AnnotatedMesh, APlanOnAnotherIsRefused) {
  const std::string own = "the module's annotations are of @mesh = <[\"x\"=2]>; plan on that mesh";
  for (const char* other : {"--mesh x=4", "--mesh y=2", "--mesh x=2,y=2", "--devices 4"}) {
    const CommandEnd end = command("plan " + file_ + " " + other);
    EXPECT_EQ(end.status, 1) << other;
    EXPECT_THAT(end.text, HasSubstr(own)) << other;
    EXPECT_EQ(command("plan " + file_ + " " + other + " --ignore-annotations").status, 0) << other;
  }
  EXPECT_EQ(command("plan " + file_ + " --mesh x=2").status, 0);
}

TEST_F(AnnotatedMesh, APlanWithoutAnnotationsCanBeVerified) {
  const std::string plan = temp_path("annotated_mesh.json");
  ASSERT_EQ(command("plan " + file_ + " --mesh x=4 --ignore-annotations --out " + plan).status, 0);
  EXPECT_THAT(command("verify " + file_ + " --plan " + plan).text, HasSubstr("\nverified\n"));
}

// `run` says that these drop the annotations.
TEST_F(AnnotatedMesh, ARunOnAnotherDropsThemWhereAsked) {
  const std::string run = "run " + file_ + " --arg '*=random:1' --quiet --verify --mesh x=4 ";
  EXPECT_THAT(command(run).text, HasSubstr("say --shard replicated or random:SEED"));
  for (const char* shard : {"--shard replicated", "--shard random:1", "--shard random:2"}) {
    const CommandEnd end = command(run + shard);
    EXPECT_EQ(end.status, 0) << shard << ": " << end.text;
  }
}

// The update of AdamW divides by gradients near zero: the order of sums shows beyond the tolerance.
TEST(VerifiedRun, UnsteadyNumbersAreNotDifferences) {
  const CommandEnd end = command(
      "run 'model:gpt?step=train&layers=1&d=64&hidden=128' --mesh x=2,y=2 --shard random:7 --quiet "
      "--verify");
  EXPECT_EQ(end.status, 0) << end.text;
  EXPECT_THAT(end.text, HasSubstr("results are the same on one device"));
}

}  // namespace
}  // namespace cleave
