#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_path.h"

namespace cleave {
namespace {

// A file of pins that has none is told as such, in one line.
TEST(PinFiles, EmptyOnesAreNotTakenForModules) {
  const std::string module = temp_path("pin_files_test.mlir");
  std::ofstream(module) << "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
                           "  return %x : tensor<8xf32>\n}\n";
  const std::string command =
      std::string(CLEAVE_COMMAND) + " plan " + module + " --mesh x=2 --pin @/dev/null 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  const size_t n = fread(buffer.data(), 1, buffer.size(), pipe);
  EXPECT_EQ(pclose(pipe) >> 8, 1);
  EXPECT_EQ(std::string(buffer.data(), n),
            "error: '/dev/null' is empty; a pin on each line was expected\n");
  std::filesystem::remove(module);
}

}  // namespace
}  // namespace cleave
