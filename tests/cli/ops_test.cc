#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace cleave {
namespace {

TEST(OpsCommand, TheDocumentIsUpToDate) {
  const std::string root = CLEAVE_SOURCE_DIR;
  const std::string command = std::string(CLEAVE_COMMAND) + " ops --markdown --tested " + root +
                              "/tests/op_coverage.txt 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string printed;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) printed.append(buffer, n);
  ASSERT_EQ(pclose(pipe), 0) << printed;
  std::ifstream file(root + "/docs/ops.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(printed, text.str()) << "run scripts/ops-table";
}

}  // namespace
}  // namespace cleave
