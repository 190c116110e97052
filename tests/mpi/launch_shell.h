#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

// The command in a shell, for tests of what ranks print and how they end.
namespace cleave::testing {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string temp_file(const std::string& name) {
  return ::testing::TempDir() + "cleave_ranks_" + std::to_string(getpid()) + "_" + name;
}

inline std::string write_temp(const std::string& name, const std::string& text) {
  const std::string path = temp_file(name);
  std::ofstream(path) << text;
  return path;
}

// A program of its own for a test, which may do something else on each rank.
inline std::string write_script(const std::string& name, const std::string& text) {
  const std::string path = write_temp(name, "#!/bin/bash\n" + text + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

struct Outcome {
  int status;
  std::string out, err;
};

// `line` is killed after two minutes: nothing here may hang.
inline Outcome shell(const std::string& line) {
  const std::string out = temp_file("out"), err = temp_file("err");
  const int status = std::system(("timeout -k 5 120 " + line + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(out),
          read_file(err)};
}

}  // namespace cleave::testing
