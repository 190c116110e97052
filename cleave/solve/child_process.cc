#include "cleave/solve/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "cleave/core/error.h"

namespace cleave::solver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 20;  // between looks at the stop token

[[noreturn]] void work(const std::function<std::vector<double>()>& task, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive its parent
  // The parent decides when it ends; what the library prints is nobody's output.
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_IGN);
  if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0)
    for (int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  int status = 1;
  try {
    const std::vector<double> numbers = task();
    const char* at = reinterpret_cast<const char*>(numbers.data());
    size_t left = numbers.size() * sizeof(double);
    while (left > 0) {
      const ssize_t written = write(out, at, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) _exit(1);
      at += written;
      left -= static_cast<size_t>(written);
    }
    status = 0;
  } catch (...) {
    // The parent sees that nothing came.
  }
  _exit(status);
}

// Ends and reaps the child, whatever happens here.
class Child {
 public:
  Child(pid_t id, int from) : id_(id), from_(from) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!is_reaped_) {
      kill(id_, SIGKILL);
      reap();
    }
    close(from_);
  }

  int from() const { return from_; }
  bool ended_well() { return reap() == 0; }

 private:
  int reap() {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    is_reaped_ = true;
    return status;
  }

  pid_t id_;
  int from_;
  bool is_reaped_ = false;
};

}  // namespace

std::optional<std::vector<double>> run_in_child(const std::function<std::vector<double>()>& task,
                                                double seconds, const std::stop_token& stop) {
  const auto begin = Clock::now();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw_user("a pipe to a child process cannot be made: {}", std::strerror(errno));
  const pid_t id = fork();
  if (id < 0) {
    const int why = errno;
    for (int end : ends) close(end);
    throw_user("a child process cannot be started: {}", std::strerror(why));
  }
  if (id == 0) {
    close(ends[0]);
    work(task, ends[1]);
  }
  close(ends[1]);
  Child child(id, ends[0]);
  std::vector<char> bytes;
  std::array<char, 1 << 16> buffer{};
  while (true) {
    if (stop.stop_requested()) return std::nullopt;
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return std::nullopt;
    pollfd ready{child.from(), POLLIN, 0};
    if (poll(&ready, 1, kPollMilliseconds) <= 0) continue;
    const ssize_t got = read(child.from(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes.insert(bytes.end(), buffer.data(), buffer.data() + got);
  }
  if (!child.ended_well()) return std::nullopt;
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

}  // namespace cleave::solver
