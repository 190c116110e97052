// The command: what `cleave launch` prints, and what happens when a rank dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string temp(const std::string& name) {
  return testing::TempDir() + "cleave_launch_" + std::to_string(getpid()) + "_" + name;
}

struct Outcome {
  int status;
  std::string out, err;
};

Outcome shell(const std::string& arguments) {
  const std::string out = temp("out"), err = temp("err");
  const std::string line = std::string(CLEAVE_COMMAND) + " " + arguments + " >" + out + " 2>" + err;
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(out), read(err)};
}

std::string program(const std::string& name) {
  return std::string(CLEAVE_TEST_DIR) + "/programs/" + name + ".mlir";
}

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(Launch, PrintsResultsOnceAndTheSameAsOneProcess) {
  const std::string run =
      "run " + program("integer_matmul") + " --arg '*=random:1' --mesh x=2,y=2 --shard random:5";
  const Outcome alone = shell(run + " --communication");
  const Outcome ranks = shell("launch -n 2 -- cleave " + run + " --communication --verify");
  EXPECT_EQ(ranks.status, 0) << ranks.err;
  EXPECT_EQ(ranks.out, alone.out);
  EXPECT_THAT(ranks.err, HasSubstr("verified: 3 results are the same"));
  const auto table = [](const std::string& err) {
    return err.substr(err.find('\n') + 1, err.find("verified") - err.find('\n') - 1);
  };
  EXPECT_EQ(table(ranks.err), table(alone.err + "verified"));
}

TEST(Launch, ReadsStandardInput) {
  const std::string run = " run - --arg '*=random:1' --mesh x=2 --shard random:1 < ";
  const Outcome ranks = shell("launch -n 2 -- cleave" + run + program("sort"));
  EXPECT_EQ(ranks.status, 0) << ranks.err;
  EXPECT_EQ(ranks.out, shell(run + program("sort")).out);
}

TEST(Launch, CountsAndTimelinesAreOfAllRanks) {
  const std::string file = temp("timeline.json");
  const std::string run = "run " + program("matmul") +
                          " --arg '*=random:1' --mesh x=4 --shard random:2 --quiet --stats";
  const Outcome alone = shell(run + " --no-compile");
  const Outcome ranks = shell("launch -n 2 -- cleave " + run + " --no-compile");
  const Outcome compiled = shell("launch -n 2 -- cleave " + run + " --timeline " + file);
  EXPECT_EQ(ranks.status, 0) << ranks.err;
  EXPECT_EQ(compiled.status, 0) << compiled.err;
  EXPECT_THAT(compiled.err, HasSubstr("compiled: "));
  const auto ops = [](const std::string& err) {
    const size_t end = err.rfind(" ops in");
    return err.substr(err.rfind('\n', end) + 1, end - err.rfind('\n', end) - 1);
  };
  EXPECT_EQ(ops(ranks.err), ops(alone.err)) << ranks.err;
  std::set<int> tracks, flights;
  const nlohmann::json timeline = nlohmann::json::parse(read(file));
  for (const auto& event : timeline["traceEvents"])
    if (event["ph"] == "X" || event["ph"] == "b")
      (event["ph"] == "X" ? tracks : flights).insert(event["tid"].get<int>());
  EXPECT_EQ(tracks, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(flights, tracks);
}

TEST(Launch, ErrorsArePrintedOnce) {
  const std::string run = "run " + program("sort") + " --arg '*=iota' --shard replicated ";
  const Outcome few = shell("launch -n 3 -- cleave " + run + "--mesh x=2");
  EXPECT_NE(few.status, 0);
  EXPECT_EQ(count(few.err, "error:"), 1u) << few.err;
  EXPECT_THAT(few.err, HasSubstr("2 devices, fewer than the 3 ranks"));
  EXPECT_THAT(few.err, HasSubstr("start at most 2 ranks"));
  const Outcome missing = shell("launch -n 2 -- cleave run no_such_file.mlir");
  EXPECT_NE(missing.status, 0);
  EXPECT_EQ(missing.err, "error: cannot read 'no_such_file.mlir': No such file or directory\n");
  const Outcome option = shell("launch -n 2 -- cleave run x.mlir --no-such-option");
  EXPECT_NE(option.status, 0);
  EXPECT_EQ(count(option.err, "no-such-option"), 1u) << option.err;
}

TEST(Launch, ACheckThatFailsOnOneRankEndsAll) {
  const std::string file = temp("check.mlir");
  std::ofstream(file) << R"(
    func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
      %0 = stablehlo.constant dense<[0, 1, 2, 4]> : tensor<4xi32>
      "check.expect_eq"(%x, %0) : (tensor<4xi32>, tensor<4xi32>) -> ()
      return %x : tensor<4xi32>
    })";
  const Outcome outcome =
      shell("launch -n 2 -- cleave run " + file + " --arg 0=iota --mesh x=2 --shard replicated");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("check.expect_eq"));
  EXPECT_EQ(count(outcome.err, "error:"), 1u) << outcome.err;
}

TEST(Launch, SaysWhatItWouldRun) {
  const Outcome outcome = shell("launch -n 4 --dry-run -- ./program --its-own option");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("mpirun -n 4 "), HasSubstr("--oversubscribe"),
                                 HasSubstr("./program --its-own option\n")));
  EXPECT_NE(shell("launch -n 0 -- true").status, 0);
  const Outcome missing = shell("launch -n 2 -- no_such_program");
  EXPECT_NE(missing.status, 0);
  EXPECT_THAT(missing.err, HasSubstr("there is no program no_such_program in PATH"));
  EXPECT_THAT(shell("launch -n 2 -- ./no_such_program").err, HasSubstr("no program ./no_such"));
  EXPECT_NE(shell("launch -n 2").status, 0);
}

// A loop of reductions without end.
constexpr const char* kEndless = R"(
sdy.mesh @mesh = <["x"=6]>
func.func @main(%a: tensor<12xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.while(%s = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare EQ, %s, %s : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<12xi32>, tensor<i32>) -> tensor<i32>
      %t = stablehlo.add %s, %sum : tensor<i32>
      stablehlo.return %t : tensor<i32>
    }
  return %r : tensor<i32>
})";

// The process of a rank whose command line contains `mark`; -1: there is none yet.
pid_t process_of(int rank, const std::string& mark) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string line = read(entry.path() / "cmdline");
    if (line.find(mark) == std::string::npos || line.find("mpirun") != std::string::npos) continue;
    const std::string environment = '\0' + read(entry.path() / "environ");
    std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
    wanted = '\0' + wanted + '\0';
    if (environment.find(wanted) != std::string::npos) return std::stoi(name);
  }
  return -1;
}

// Starts three ranks of two devices, sends one of them a signal when all are at work, and gives
// what is printed after that.
struct Death {
  int status = 0;
  std::string text;
};

Death kill_one(int rank, int signal, const std::string& settings = "") {
  const std::string file = temp("endless_" + std::to_string(rank) + ".mlir"), log = temp("death");
  std::ofstream(file) << kEndless;
  const pid_t launcher = fork();
  if (launcher == 0) {
    const std::string line = "exec env " + settings + " " + CLEAVE_COMMAND +
                             " launch -n 3 -- cleave run " + file +
                             " --arg 0=iota --shard annotations --trace >" + log + " 2>&1";
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  // Every rank has traced an op: the loop runs.
  for (int i = 0; i < 600; ++i) {
    const std::string text = read(log);
    if (text.find("device 0 ") != std::string::npos &&
        text.find("device 2 ") != std::string::npos && text.find("device 4 ") != std::string::npos)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const pid_t victim = process_of(rank, file);
  EXPECT_GT(victim, 0);
  if (victim > 0) kill(victim, signal);
  Death death;
  waitpid(launcher, &death.status, 0);
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);)
    if (line.find("error:") != std::string::npos) death.text += line + "\n";
  std::filesystem::remove(log);
  for (int other = 0; other < 3; ++other) EXPECT_EQ(process_of(other, file), -1);
  return death;
}

TEST(Launch, AKilledRankIsNamedWithTheCollectiveAndNobodyHangs) {
  const Death death = kill_one(1, SIGKILL);
  EXPECT_TRUE(WIFEXITED(death.status) && WEXITSTATUS(death.status) != 0);
  // The end of the process is what told them: nobody waited until the rank had been silent.
  EXPECT_THAT(death.text, HasSubstr("its process has ended without a word"));
  EXPECT_EQ(count(death.text, "error:"), 2u);  // one line for each survivor
  for (const char* survivor : {"rank 0: device ", "rank 2: device "})
    EXPECT_THAT(death.text, HasSubstr(survivor));
  EXPECT_THAT(death.text, HasSubstr("waits in all_reduce \"x\" for stablehlo.add"));
  EXPECT_THAT(death.text, HasSubstr("rank 1 has died"));
}

TEST(Launch, Rank0MayDieAsWell) {
  const Death death = kill_one(0, SIGKILL);
  EXPECT_TRUE(WIFEXITED(death.status) && WEXITSTATUS(death.status) != 0);
  EXPECT_THAT(death.text, HasSubstr("rank 0 has died: its process has ended without a word"));
  EXPECT_THAT(death.text, HasSubstr("waits in all_reduce"));
}

TEST(Launch, ARankThatIsSilentCountsAsDead) {
  const Death death = kill_one(2, SIGSTOP, "CLEAVE_RANK_TIMEOUT=2");
  EXPECT_TRUE(WIFEXITED(death.status) && WEXITSTATUS(death.status) != 0);
  EXPECT_THAT(death.text, HasSubstr("rank 2 has died: nothing has been heard from it for 2 s"));
}

TEST(Launch, RanksThatWaitForEachOtherInACircleAreAnError) {
  setenv("CLEAVE_DEADLOCK_TIMEOUT", "1", 1);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const Outcome outcome = shell("launch -n 2 -- " + self + " --gtest_filter=Circle.*");
  unsetenv("CLEAVE_DEADLOCK_TIMEOUT");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 tests"));
}

}  // namespace
}  // namespace cleave
