#pragma once

#include <stop_token>
#include <thread>

namespace cleave::cli {

// While it lives, the first Ctrl-C (or SIGTERM, or SIGUSR1, which is what `cleave launch` sends to
// ranks, and batch systems before a job's time is up) asks `token` to stop, so that a search ends
// with the best that it has; the second one ends the program as usual, but for SIGUSR1.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  bool happened() const { return source_.stop_requested(); }

 private:
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace cleave::cli
