#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace cleave {

// A path of this name in a folder that only this process uses: tests run side by side, and each
// of them may be a process. The folder goes when the process ends.
inline std::string temp_path(const std::string& name) {
  struct Folder {
    const pid_t owner = getpid();
    const std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) / ("cleave_test_" + std::to_string(owner));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      if (getpid() == owner) std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return (folder.path / name).string();
}

}  // namespace cleave
