#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "oracle.h"

namespace cleave::soak {
namespace {

TEST(Soak, ASliceOfRandomPrograms) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const RandomProgram program = random_program(seed);
    const auto fault = fault_of(program.text(), seed);
    EXPECT_FALSE(fault) << "seed " << seed << ": " << *fault << "\n"
                        << shrink(program, seed).text();
  }
}

// What long runs found, as small modules, with the seed they were found with in the first line.
TEST(Soak, ModulesFoundBefore) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(CLEAVE_TEST_DIR "/found"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    uint64_t seed = 0;
    ASSERT_EQ(std::sscanf(text.str().c_str(), "// seed %lu", &seed), 1) << file;
    const auto fault = fault_of(text.str(), seed, 8);
    EXPECT_FALSE(fault) << file << ": " << *fault;
  }
}

}  // namespace
}  // namespace cleave::soak
