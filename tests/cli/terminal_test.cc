// What a person at a terminal sees: colours, bars, lines that fit; and that files and pipes get
// plain text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPlan = "plan 'model:mlp?step=train' --mesh data=2,model=4 --machine h100";
constexpr const char* kShow = "show --mesh x=4,y=8 --shape 64x64 --spec '[{\"x\"}, {\"y\"}]'";

// What the command prints in a terminal of so many columns; `variables` as in a shell.
std::string in_terminal(int width, const std::string& arguments, const std::string& variables) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(width);
  size.ws_row = 40;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    const std::string line =
        "env -u NO_COLOR -u CLICOLOR_FORCE -u LC_ALL -u LC_CTYPE LANG=C.UTF-8 "
        "TERM=xterm " +
        variables + " " CLEAVE_COMMAND " " + arguments;
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = read(terminal, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<size_t>(n));
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << text;
  return std::regex_replace(text, std::regex("\r\n"), "\n");
}

std::string in_pipe(const std::string& arguments, const std::string& variables = "") {
  const std::string line = "env -u NO_COLOR -u CLICOLOR_FORCE LANG=C.UTF-8 TERM=xterm " +
                           variables + " " CLEAVE_COMMAND " " + arguments;
  FILE* pipe = popen(line.c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), n);
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

std::string without_colours(const std::string& text) {
  return std::regex_replace(text, std::regex("\033\\[[0-9]*m"), "");
}

// Of a plan's summary: without its last row, which has seconds that were measured.
std::string without_times(const std::string& text) {
  return text.substr(0, text.rfind('\n', text.find(" ops, ")));
}

size_t widest(const std::string& text) {
  std::istringstream lines(without_colours(text));
  size_t most = 0;
  for (std::string line; std::getline(lines, line);)
    most = std::max(most, static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
                      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
                    })));
  return most;
}

TEST(Terminal, APipeGetsPlainText) {
  const std::string text = in_pipe(kPlan);
  EXPECT_THAT(text, AllOf(HasSubstr("step "), Not(HasSubstr("\033")), Not(HasSubstr("█"))));
  EXPECT_THAT(in_pipe(kShow), Not(HasSubstr("\033")));
}

TEST(Terminal, SharesHaveBarsAndAxesAColour) {
  const std::string text = in_terminal(100, kPlan, "");
  EXPECT_THAT(text, AllOf(HasSubstr("\033[94m\"data\""), HasSubstr("\033[33m\"model\""),
                          HasSubstr("\033[1mstep "), HasSubstr("█")));
}

TEST(Terminal, AShareOfAllHasAFullBar) {
  const std::string text =
      in_terminal(100, "plan 'model:mlp?step=forward' --mesh x=1 --machine h100", "");
  EXPECT_THAT(text, HasSubstr("100.0% \033[90m████████████\033[0m"));
}

TEST(Terminal, NoColorLeavesBars) {
  const std::string text = in_terminal(100, kPlan, "NO_COLOR=1");
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\033")), HasSubstr("█")));
  EXPECT_EQ(without_times(text), without_times(without_colours(in_terminal(100, kPlan, ""))));
}

TEST(Terminal, OtherCharactersThanUtf8HaveNoBars) {
  EXPECT_THAT(in_terminal(100, kPlan, "LANG=C"), AllOf(HasSubstr("\033[1m"), Not(HasSubstr("█"))));
}

TEST(Terminal, ADumbOneIsAPipe) {
  EXPECT_EQ(in_terminal(60, kShow, "TERM=dumb"), in_pipe(kShow));
  EXPECT_EQ(without_times(in_terminal(60, kPlan, "TERM=dumb")), without_times(in_pipe(kPlan)));
}

TEST(Terminal, ColoursCanBeForcedIntoAPipe) {
  const std::string text = in_pipe(kShow, "CLICOLOR_FORCE=1");
  EXPECT_THAT(text, HasSubstr("\033[94m\"x\""));
  EXPECT_EQ(without_colours(text), in_pipe(kShow));
  EXPECT_EQ(in_pipe(kShow, "CLICOLOR_FORCE=1 NO_COLOR=1"), in_pipe(kShow));
}

TEST(Terminal, LinesFit) {
  for (const int width : {50, 64, 80, 100})
    EXPECT_LE(widest(in_terminal(width, kPlan, "")), static_cast<size_t>(width));
}

// Rows that begin far to the right and have long names, and what differs between plans.
TEST(Terminal, LinesOfFourAxesFit) {
  const std::string before = testing::TempDir() + "narrow_before.json",
                    after = testing::TempDir() + "narrow_after.json";
  const std::string plan =
      "plan 'model:gpt?step=train&layers=1' --mesh pod=2,data=2,seq=2,model=2 --solver heuristic ";
  in_pipe(plan + "--out " + before);
  in_pipe(plan + "--memory 3MiB --memory-share 1 --out " + after);
  EXPECT_LE(widest(in_terminal(60, "explain " + after, "")), 60U);
  EXPECT_LE(widest(in_terminal(60, "plan --diff " + before + " " + after, "")), 60U);
}

TEST(Terminal, APictureThatDoesNotFitIsATable) {
  EXPECT_THAT(in_terminal(100, kShow, ""), AllOf(HasSubstr("| "), Not(HasSubstr("device 0"))));
  const std::string narrow = in_terminal(60, kShow, "");
  EXPECT_THAT(narrow,
              AllOf(HasSubstr("the picture is wider than the terminal"), HasSubstr("device 31")));
  EXPECT_LE(widest(narrow), 60U);
}

TEST(Terminal, RangesHaveTheColourOfTheAxisThatSplitsThem) {
  EXPECT_THAT(in_terminal(100, kShow, ""),
              AllOf(HasSubstr("\033[94m[0,16)\033[0m"), HasSubstr("\033[33m[0,8)\033[0m")));
}

TEST(Terminal, PlansForProgramsArePlain) {
  EXPECT_THAT(in_terminal(60, std::string(kPlan) + " --json", ""), Not(HasSubstr("\033")));
  EXPECT_THAT(in_terminal(60, std::string(kPlan) + " --export spmd", ""), Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace cleave
