#pragma once

#include <stop_token>
#include <thread>

namespace cleave::cli {

// While it lives, the first Ctrl-C (or SIGTERM) asks `token` to stop, so that a search ends with
// the best that it has; the second one ends the program as usual.
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
