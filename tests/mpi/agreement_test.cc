// Ranks that were not given the same: an error before anything runs, not nonsense.
#include <gmock/gmock.h>

#include "tests/mpi/launch_shell.h"

namespace cleave {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;

const std::string kCommand = CLEAVE_COMMAND;

std::string module(const std::string& constant) {
  return R"(func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %c = stablehlo.constant dense<)" +
         constant + R"(> : tensor<4x4xf32>
  %0 = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
})";
}

// Rank `odd` runs `other`, the others `usual`.
Outcome run_two(int odd, const std::string& usual, const std::string& other, int ranks = 3) {
  const std::string script =
      testing::write_script("odd.sh", "if [ \"$OMPI_COMM_WORLD_RANK\" = " + std::to_string(odd) +
                                          " ]; then exec " + kCommand + " run " + other +
                                          "; else exec " + kCommand + " run " + usual + "; fi");
  return testing::shell(kCommand + " launch -n " + std::to_string(ranks) + " -- " + script);
}

void expect_refused(const Outcome& outcome, const std::string& why) {
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error: the ranks "), HasSubstr(why)));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(Launch, RefusesModulesThatDifferInAConstant) {
  const std::string one = testing::write_temp("one.mlir", module("1.0"));
  const std::string two = testing::write_temp("two.mlir", module("2.0"));
  for (const char* how : {" --mesh x=4 --shard random:5", " --mesh x=4 --shard replicated",
                          " --mesh x=4 --shard random:5 --no-compile", ""}) {
    const std::string options = std::string(" --quiet --arg '*=ones'") + how;
    const Outcome outcome = run_two(2, one + options, two + options);
    expect_refused(outcome, "different modules: op ");
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("stablehlo.constant"), HasSubstr("on rank 0 and"),
                                   HasSubstr("on rank 2")));
  }
  // Elements that no message shows in full.
  const std::string many = "[[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], ";
  const std::string three = testing::write_temp("3.mlir", module(many + "[1.0, 2.0, 3.0, 4.0]]"));
  const std::string four = testing::write_temp("4.mlir", module(many + "[1.0, 2.0, 3.0, 4.5]]"));
  const std::string options = " --quiet --arg '*=ones' --mesh x=4 --shard random:5";
  expect_refused(run_two(0, three + options, four + options), "different modules: op ");
}

TEST(Launch, RefusesArgumentsAndOptionsThatDiffer) {
  const std::string file = testing::write_temp("same.mlir", module("1.0"));
  const std::string usual = file + " --quiet --mesh x=4 --shard random:5 --arg 0=random:1";
  expect_refused(run_two(1, usual, file + " --quiet --mesh x=4 --shard random:5 --arg 0=random:2"),
                 "different arguments: argument 0 is another on rank 1 than on rank 0");
  expect_refused(run_two(1, usual, file + " --quiet --mesh x=4 --shard random:6 --arg 0=random:1"),
                 "--shard is 'random:5' on rank 0 and 'random:6' on rank 1");
  expect_refused(run_two(1, usual, file + " --quiet --mesh y=4 --shard random:5 --arg 0=random:1"),
                 "--mesh is 'x=4' on rank 0 and 'y=4' on rank 1");
  expect_refused(run_two(0, usual, usual + " --no-compile"), "--no-compile is ");
}

TEST(Launch, RunsWhatIsTheSame) {
  const std::string file = testing::write_temp("equal.mlir", module("1.0"));
  const std::string usual = file + " --mesh x=4 --shard random:5 --arg 0=random:1";
  const Outcome ranks = run_two(1, usual, usual);
  EXPECT_EQ(ranks.status, 0) << ranks.err;
  EXPECT_EQ(ranks.out, testing::shell(kCommand + " run " + usual).out);
}

TEST(Launch, TakesFurtherArgumentsOfMpirunBeforeTheProgram) {
  const std::string show = kCommand + " show --mesh x=2 --shape 4 --placements R";
  const Outcome outcome =
      testing::shell(kCommand + " launch -n 2 --mpirun=-v --mpirun=--tag-output -- " + show);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Outcome dry = testing::shell("env CLEAVE_SOMETHING=1 " + kCommand +
                                     " launch -n 2 --mpirun=-v --dry-run -- " + show);
  EXPECT_THAT(dry.out, AllOf(HasSubstr(" -v " + show), HasSubstr("-x CLEAVE_SOMETHING"),
                             HasSubstr("-x CLEAVE_LAUNCH_REPORT")));
}

TEST(Launch, NamesRanksThatNeverJoin) {
  const std::string file = testing::write_temp("join.mlir", module("1.0"));
  const std::string script = testing::write_script(
      "sleeper.sh", "[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && exec sleep 1000\nexec " + kCommand +
                        " run " + file + " --quiet --arg '*=ones' --mesh x=4 --shard random:5");
  const Outcome outcome =
      testing::shell("env CLEAVE_JOIN_TIMEOUT=3 " + kCommand + " launch -n 3 -- " + script);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("not all ranks have joined within 3 s"),
                                 HasSubstr("rank 1 has not come")));
  const Outcome wrong =
      testing::shell("env CLEAVE_JOIN_TIMEOUT=soon " + kCommand + " launch -n 2 -- " + kCommand +
                     " run " + file + " --arg '*=ones' --mesh x=4 --shard random:5");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.err, HasSubstr("CLEAVE_JOIN_TIMEOUT=soon: say a number of seconds"));
}

TEST(Launch, SaysWhenProgramsEndWithoutAWord) {
  const Outcome outcome = testing::shell(kCommand + " launch -n 2 -- false");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("error: false ended with status"));
  const Outcome well = testing::shell(kCommand + " launch -n 2 -- true");
  EXPECT_EQ(well.status, 0);
  EXPECT_THAT(well.err, Not(HasSubstr("error")));
}

}  // namespace
}  // namespace cleave
