// Every file beside this one is a module with a RUN line and CHECK lines, compared by LLVM's
// FileCheck:
//   // RUN: cleave opt %s -sdy-propagation-pipeline | FileCheck %s
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string run_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  const std::string marker = "// RUN: ";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(marker)) return line.substr(marker.size());
  return "";
}

TEST(Passes, FileCheckAcceptsWhatTheyPrint) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CLEAVE_TEST_DIR)) {
    if (entry.path().extension() != ".mlir") continue;
    std::string command = run_line(entry.path());
    ASSERT_FALSE(command.empty()) << entry.path() << " has no RUN line";
    command = replaced(command, "FileCheck", "FileCheck-14");
    command = replaced(command, "cleave opt", std::string(CLEAVE_COMMAND) + " opt");
    command = replaced(command, "%s", entry.path().string());
    EXPECT_EQ(std::system(("set -e; " + command).c_str()), 0) << command;
    ++count;
  }
  EXPECT_GT(count, 4);
}

}  // namespace
