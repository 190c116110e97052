// How `cleave launch` ends when it is asked to, killed, or cannot begin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/mpi/launch_shell.h"

namespace cleave::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two ranks that sleep under a name of their own.
struct Sleepers {
  explicit Sleepers(const std::string& name, const std::string& first = "")
      : program(write_script(name, first + "touch \"$0.$OMPI_COMM_WORLD_RANK\"\nsleep 300 & wait")),
        log(temp_file(name + "_log")) {
    launcher = fork();
    if (launcher == 0) {
      setpgid(0, 0);
      const std::string line = std::string("exec ") + CLEAVE_COMMAND + " launch -n 2 -- " +
                               program + " >" + log + " 2>&1";
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    for (const char* rank : {".0", ".1"})
      for (int i = 0; i < 1200 && !std::filesystem::exists(program + rank); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ~Sleepers() {
    for (const char* rest : {"", ".0", ".1"}) std::filesystem::remove(program + rest);
    std::filesystem::remove(log);
  }

  int wait_for_end() const {
    int status = 0;
    waitpid(launcher, &status, 0);
    return status;
  }

  // Processes with the program's name in their command line, once they had time to end.
  int left() const {
    int count = 0;
    for (int i = 0; i < 1200; ++i) {
      count = 0;
      for (const auto& entry : std::filesystem::directory_iterator("/proc"))
        count += read_file(entry.path() / "cmdline").find(program) != std::string::npos;
      if (count == 0) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return count;
  }

  std::string program, log;
  pid_t launcher = -1;
};

TEST(LaunchEnd, ASignalEndsAllRanksAndIsTheCause) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Sleepers sleepers("asked_" + std::to_string(signal));
    kill(sleepers.launcher, signal);
    const int status = sleepers.wait_for_end();
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    EXPECT_EQ(sleepers.left(), 0);
    EXPECT_THAT(read_file(sleepers.log),
                HasSubstr("error: launch: ended by signal " + std::to_string(signal)));
  }
}

TEST(LaunchEnd, ATerminalThatHangsUpLeavesNoRanks) {
  const Sleepers sleepers("hung_up");
  kill(-sleepers.launcher, SIGHUP);
  EXPECT_EQ(WEXITSTATUS(sleepers.wait_for_end()), 128 + SIGHUP);
  EXPECT_EQ(sleepers.left(), 0);
}

TEST(LaunchEnd, AKilledLauncherLeavesNoRanks) {
  const Sleepers sleepers("killed");
  kill(sleepers.launcher, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(sleepers.wait_for_end()));
  EXPECT_EQ(sleepers.left(), 0);
}

// A training of two ranks that would go on for long; at a terminal of its own, if it is asked for.
struct Training {
  Training(const std::string& name, bool at_terminal)
      : folder(temp_file(name)), log(temp_file(name + "_log")) {
    const std::string line =
        std::string("exec ") + CLEAVE_COMMAND + " launch -n 2 -- cleave train " +
        "'model:gpt?layers=1&d=16&heads=2&kv_heads=1&hidden=16&length=8' --data " +
        write_temp(name + "_text", std::string(4096, 'a')) +
        " --mesh data=2 --plan data --steps 1000000 --batch 4 --keep 1 --out " + folder + " >" +
        log + " 2>&1";
    launcher = at_terminal ? forkpty(&terminal, nullptr, nullptr, nullptr) : fork();
    if (launcher == 0) {
      if (!at_terminal) setpgid(0, 0);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    for (int i = 0; i < 2400 && read_file(folder + "/metrics.jsonl").empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ~Training() {
    if (terminal >= 0) close(terminal);
    std::filesystem::remove_all(folder);
    for (const std::string& file : {log, folder + "_text"}) std::filesystem::remove(file);
  }

  void expect_saved() const {
    int status = 0;
    waitpid(launcher, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_THAT(read_file(log), HasSubstr("interrupted and saved at step"));
    EXPECT_THAT(read_file(log), Not(HasSubstr("error:")));
    EXPECT_TRUE(std::filesystem::exists(folder + "/checkpoints/latest"));
  }

  std::string folder, log;
  int terminal = -1;
  pid_t launcher = -1;
};

TEST(LaunchEnd, ATrainingIsSaved) {
  for (int signal : {SIGINT, SIGTERM}) {
    const Training training("saved_" + std::to_string(signal), false);
    kill(training.launcher, signal);
    training.expect_saved();
  }
}

TEST(LaunchEnd, ATrainingAtATerminalIsSaved) {
  const Training training("saved_at_terminal", true);
  ASSERT_EQ(write(training.terminal, "\x03", 1), 1);
  training.expect_saved();
}

TEST(LaunchEnd, TheSecondSignalEndsWhatIgnoresTheFirst) {
  const Sleepers sleepers("ignoring", "trap '' USR1\n");
  kill(sleepers.launcher, SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(waitpid(sleepers.launcher, nullptr, WNOHANG), 0);
  kill(sleepers.launcher, SIGTERM);
  EXPECT_EQ(WEXITSTATUS(sleepers.wait_for_end()), 128 + SIGTERM);
  EXPECT_EQ(sleepers.left(), 0);
}

TEST(LaunchEnd, WhatItCannotBeginWithIsNamed) {
  const std::string cleave = CLEAVE_COMMAND;
  Outcome outcome = shell(cleave + " launch -n 2 --hostfile /nonexistent/hosts -- true");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("launch --hostfile /nonexistent/hosts: No such file"));
  outcome = shell("env TMPDIR=/nonexistent " + cleave + " launch -n 2 -- true");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("say one with TMPDIR"));
}

}  // namespace
}  // namespace cleave::testing
