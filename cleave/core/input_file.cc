#include "cleave/core/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cleave/core/available_memory.h"
#include "cleave/core/error.h"

namespace cleave {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr size_t kBlock = size_t{1} << 16;
constexpr size_t kLookEvery = size_t{64} << 20;  // bytes between two checks of the memory left

class InputDescriptor {
 public:
  explicit InputDescriptor(int fd) : fd_(fd) {}
  ~InputDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  InputDescriptor(const InputDescriptor&) = delete;
  InputDescriptor& operator=(const InputDescriptor&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw_user("cannot read '{}': {}", path, why);
}

// A pipe that the shell made for this process: its other end is open already, or never will be.
bool is_inherited(const std::string& path) {
  return path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
}

std::string kind_of(mode_t mode) {
  return S_ISDIR(mode)                    ? "it is a folder"
         : S_ISSOCK(mode)                 ? "it is a socket"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "it is a device"
                                          : "it is no file";
}

void wait_for(int fd, const std::string& path, int milliseconds) {
  pollfd one{fd, POLLIN, 0};
  for (;;) {
    const int ready = poll(&one, 1, milliseconds);
    if (ready > 0) return;
    if (ready == 0)
      fail(path, fmt::format("nothing came through it for {} s", milliseconds / 1000));
    if (errno != EINTR) fail(path, std::strerror(errno));
  }
}

std::string read_all(int fd, const std::string& path, bool patient) {
  std::string text;
  size_t used = 0, checked = 0;
  for (;;) {
    if (used == text.size()) {
      // Growing copies: both texts are there for a moment.
      const size_t next = std::max(kBlock, 2 * text.size());
      if (next > checked + kLookEvery) {
        check_fits(static_cast<int64_t>(next), fmt::format("cannot read '{}'", path));
        checked = next;
      }
      text.resize(next);
    }
    if (!patient) wait_for(fd, path, kPatienceMs);
    const ssize_t n = read(fd, text.data() + used, text.size() - used);
    if (n == 0) break;
    if (n > 0)
      used += static_cast<size_t>(n);
    else if (errno == EAGAIN)
      wait_for(fd, path, patient ? -1 : kPatienceMs);
    else if (errno != EINTR)
      fail(path, std::strerror(errno));
  }
  text.resize(used);
  return text;
}

}  // namespace

std::string read_input_file(const std::string& path) {
  const bool inherited = is_inherited(path);
  // Without waiting: opening a pipe would otherwise wait for a writer.
  const InputDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | (inherited ? 0 : O_NONBLOCK)));
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) fail(path, std::strerror(errno));
  if (inherited && !S_ISDIR(status.st_mode)) return read_all(fd, path, true);
  if (S_ISFIFO(status.st_mode)) return read_all(fd, path, false);
  if (S_ISCHR(status.st_mode) && path == "/dev/null") return {};
  if (!S_ISREG(status.st_mode)) fail(path, kind_of(status.st_mode));
  check_fits(status.st_size, fmt::format("cannot read '{}'", path));
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t used = 0;
  while (used < text.size()) {
    const ssize_t n = read(fd, text.data() + used, text.size() - used);
    if (n == 0) break;
    if (n > 0)
      used += static_cast<size_t>(n);
    else if (errno != EINTR)
      fail(path, std::strerror(errno));
  }
  text.resize(used);
  // Files of /proc say that they are empty.
  return status.st_size > 0 ? text : read_all(fd, path, true);
}

void check_regular_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) fail(path, std::strerror(errno));
  if (S_ISFIFO(status.st_mode)) fail(path, "it is a pipe; a file is needed");
  if (!S_ISREG(status.st_mode)) fail(path, kind_of(status.st_mode));
}

std::string read_standard_input() { return read_all(STDIN_FILENO, "standard input", true); }

}  // namespace cleave
