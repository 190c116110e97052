#include "cleave/core/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cleave/core/error.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFile : public testing::Test {
 protected:
  OutputFile() {
    std::string name = testing::TempDir() + "cleave_output_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~OutputFile() override { fs::remove_all(folder_); }

  static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  static std::string error_of(const fs::path& path) {
    try {
      write_file(path, "text");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

TEST_F(OutputFile, IsWrittenAndReplaced) {
  write_file(folder_ / "a", "one");
  write_file(folder_ / "a", "two");
  EXPECT_EQ(contents(folder_ / "a"), "two");
  const std::string_view parts[] = {"x", "", "yz"};
  write_file(folder_ / "a", parts);
  EXPECT_EQ(contents(folder_ / "a"), "xyz");
  EXPECT_EQ(files(), 1u);  // nothing is left beside it
}

TEST_F(OutputFile, ReadersOfTheOldFileKeepIt) {
  write_file(folder_ / "a", "old");
  std::ifstream reader(folder_ / "a");
  write_file(folder_ / "a", "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");
}

TEST_F(OutputFile, KeepsPermissionsAndLinks) {
  write_file(folder_ / "a", "old");
  chmod((folder_ / "a").c_str(), 0640);
  fs::create_directory(folder_ / "sub");
  fs::create_symlink("../a", folder_ / "sub" / "link");
  write_file(folder_ / "sub" / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "sub" / "link"));
  EXPECT_EQ(contents(folder_ / "a"), "new");
  struct stat status = {};
  stat((folder_ / "a").c_str(), &status);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  fs::create_symlink("not_yet", folder_ / "dangling");
  write_file(folder_ / "dangling", "made");
  EXPECT_EQ(contents(folder_ / "not_yet"), "made");
}

TEST_F(OutputFile, NewFilesObeyTheUmask) {
  const mode_t before = umask(027);
  write_file(folder_ / "a", "x");
  umask(before);
  struct stat status = {};
  stat((folder_ / "a").c_str(), &status);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST_F(OutputFile, DevicesAreWrittenNotReplaced) {
  EXPECT_THAT(error_of("/dev/full"), HasSubstr("/dev/full: cannot be written: No space left"));
  fs::create_symlink("/dev/full", folder_ / "full");
  EXPECT_THAT(error_of(folder_ / "full"), HasSubstr("No space left"));
  write_file("/dev/null", "x");
  for (const char* device : {"/dev/full", "/dev/null"})
    EXPECT_TRUE(fs::is_character_file(device)) << device;
  EXPECT_TRUE(fs::is_symlink(folder_ / "full"));
}

// A descriptor that leads to a file is continued where it stands, as a shell's >> does.
TEST_F(OutputFile, OpenDescriptorsAreContinued) {
  const int file = open((folder_ / "a").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(write(file, "before ", 7), 7);
  write_file("/dev/fd/" + std::to_string(file), "after");
  close(file);
  EXPECT_EQ(contents(folder_ / "a"), "before after");
  EXPECT_THAT(error_of("/dev/fd/" + std::to_string(file)), HasSubstr("cannot be written"));
}

TEST_F(OutputFile, FoldersLoopsAndPipesWithoutReadersAreErrors) {
  EXPECT_THAT(error_of(folder_), HasSubstr("it is a folder"));
  EXPECT_TRUE(fs::is_directory(folder_));
  EXPECT_THAT(error_of(folder_ / "none" / "a"), HasSubstr("No such file"));
  EXPECT_THAT(error_of(folder_ / ""), HasSubstr("cannot be written"));
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT(error_of(folder_ / "loop"), HasSubstr("symbolic links"));
  mkfifo((folder_ / "pipe").c_str(), 0600);
  EXPECT_THAT(error_of(folder_ / "pipe"), HasSubstr("nobody reads this pipe"));
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
}

TEST_F(OutputFile, GrowsAtItsEnd) {
  append_file(folder_ / "a", "one\n");
  append_file(folder_ / "a", "two\n");
  EXPECT_EQ(contents(folder_ / "a"), "one\ntwo\n");
  EXPECT_THROW(append_file("/dev/full", "x"), UserError);
}

TEST_F(OutputFile, CheckChangesNothing) {
  check_writable(folder_ / "a");
  EXPECT_EQ(files(), 0u);
  write_file(folder_ / "a", "x");
  check_writable(folder_ / "a");
  EXPECT_EQ(contents(folder_ / "a"), "x");
  check_writable("/dev/full");
  EXPECT_THROW(check_writable(folder_), UserError);
  EXPECT_THROW(check_writable(folder_ / "none" / "a"), UserError);
}

}  // namespace
}  // namespace cleave
