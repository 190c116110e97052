#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

// What the command does with outputs that fail, and with arguments that are wrong.

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Outcome {
  int status;
  std::string text;  // of standard error, and of standard output if `line` sends it there
};

class CommandOutput : public testing::Test {
 protected:
  CommandOutput() {
    std::string name = testing::TempDir() + "cleave_command_output_XXXXXX";
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ / "m.mlir") << R"(
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
})";
  }
  ~CommandOutput() override { fs::remove_all(folder_); }

  // A line of the shell, run in the folder; `cleave` is the command.
  Outcome shell(const std::string& line) const {
    const std::string command = "exec 2>&1; cd '" + folder_.string() + "'; cleave() { \"" +
                                CLEAVE_COMMAND + "\" \"$@\"; }; " + line;
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer;
    Outcome outcome;
    while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
      outcome.text.append(buffer.data(), n);
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }

  fs::path folder_;
};

TEST_F(CommandOutput, StandardOutputThatIsFullOrClosedIsAnError) {
  for (const char* command :
       {"opt m.mlir", "run m.mlir --arg '*=ones'", "ops", "--help", "rules m.mlir",
        "trace model:mlp", "plan m.mlir --mesh x=2", "discover relu"}) {
    const Outcome full = shell(std::string("cleave ") + command + " > /dev/full");
    EXPECT_EQ(full.status, 1) << command;
    EXPECT_THAT(full.text, HasSubstr("error: standard output cannot be written")) << command;
    const Outcome closed = shell(std::string("cleave ") + command + " >&-");
    EXPECT_EQ(closed.status, 1) << command;
    EXPECT_THAT(closed.text, HasSubstr("error: standard output cannot be written")) << command;
  }
  EXPECT_EQ(shell("cleave run m.mlir --arg '*=ones' --quiet >&-").status, 0);
}

TEST_F(CommandOutput, AReaderThatGoesAwayIsAnErrorNotASignal) {
  const Outcome outcome =
      shell("{ cleave ops; echo status $? >&2; } | true");  // more than a pipe holds
  EXPECT_THAT(outcome.text, HasSubstr("status 1"));
}

TEST_F(CommandOutput, FilesThatCannotBeWrittenAreErrors) {
  for (const char* command :
       {"opt m.mlir -o /dev/full", "plan m.mlir --mesh x=2 --out /dev/full",
        "run m.mlir --arg '*=ones' --quiet --timeline /dev/full",
        "run m.mlir --arg '*=ones' --quiet --timeline folder", "opt m.mlir -o folder",
        "plan m.mlir --mesh x=2 --out folder", "plan m.mlir --mesh x=2 --timeline /dev/full",
        "plan m.mlir --mesh x=2 --timeline folder", "opt m.mlir -o nowhere/m.mlir",
        "run m.mlir --arg '*=ones' --quiet --out m.mlir"}) {
    fs::create_directory(folder_ / "folder");
    const Outcome outcome = shell(std::string("cleave ") + command + " > out");
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.text, HasSubstr("error: ")) << command;
    EXPECT_TRUE(fs::is_directory(folder_ / "folder")) << command;
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

// `ulimit -f` ends processes by a signal unless they say that they want the error.
TEST_F(CommandOutput, AFullDiskLeavesWhatWasThere) {
  std::ofstream(folder_ / "big.txt") << "old";
  const Outcome outcome =
      shell("cleave trace model:gpt > gpt.mlir; ulimit -f 1; cleave opt gpt.mlir -o big.txt");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text, HasSubstr("big.txt: cannot be written: File too large"));
  std::string text;
  std::ifstream(folder_ / "big.txt") >> text;
  EXPECT_EQ(text, "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 3);
}

TEST_F(CommandOutput, StandardOutputByItsNameIsNotReplaced) {
  const Outcome outcome =
      shell("{ echo first; cleave opt m.mlir -o /dev/stdout; echo last; } > file; cat file");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, testing::StartsWith("first\n"));
  EXPECT_THAT(outcome.text, HasSubstr("stablehlo.tanh"));
  EXPECT_THAT(outcome.text, testing::EndsWith("last\n"));
}

TEST_F(CommandOutput, WrongArgumentsAreOneLineAndStatusTwo) {
  for (const char* command :
       {"", "nonsense", "run", "run m.mlir --nonsense", "plan m.mlir --effort many",
        "opt -nonsense", "opt a b", "opt -o", "launch", "run m.mlir --arg", "show --shape"}) {
    const Outcome outcome = shell(std::string("cleave ") + command);
    EXPECT_EQ(outcome.status, 2) << command << ": " << outcome.text;
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
    EXPECT_THAT(outcome.text, testing::StartsWith("error: ")) << command;
    EXPECT_THAT(outcome.text, HasSubstr("--help")) << command;
  }
  const Outcome help = shell("cleave run --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.text, HasSubstr("--timeline"));
}

}  // namespace
}  // namespace cleave
