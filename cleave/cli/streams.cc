#include "cleave/cli/streams.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace cleave::cli {

void prepare_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one. Standard output opened for reading: every write fails.
    const int stand_in = ::open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (stand_in >= 0 && stand_in != number) close(stand_in);
  }
}

void finish_output(Outcome& outcome) {
  const bool broken = std::ferror(stdout) != 0;
  const bool flushed = std::fflush(stdout) == 0;
  const std::string reason =
      flushed ? "the disk is full, or it was closed" : std::string(std::strerror(errno));
  if (broken || !flushed) {
    // An exception that the failed write itself raised is no bug.
    if (outcome.status == 0 || outcome.status == 70)
      outcome = {1, false, fmt::format("error: standard output cannot be written: {}", reason)};
  }
  if (std::ferror(stderr) != 0 && (outcome.status == 0 || outcome.status == 70))
    outcome = {1, false, "error: standard error cannot be written"};
}

Outcome wrong_arguments(std::string what, const std::string& command) {
  std::replace(what.begin(), what.end(), '\n', ' ');
  what.erase(what.find_last_not_of(" .") + 1);
  return {
      2, false,
      fmt::format("error: {}; see cleave {}{}--help", what, command, command.empty() ? "" : " ")};
}

}  // namespace cleave::cli
