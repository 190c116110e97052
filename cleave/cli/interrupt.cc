#include "cleave/cli/interrupt.h"

#include <chrono>
#include <csignal>

namespace cleave::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// The launcher repeats SIGUSR1; the others are Ctrl-C and kill.
extern "C" void note_interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, signal == SIGUSR1 ? SIG_IGN : SIG_DFL);
}

}  // namespace

// A handler may do next to nothing, so that a thread looks for what it noted.
Interrupt::Interrupt()
    : watcher_([this](const std::stop_token& done) {
        while (!done.stop_requested() && !interrupted)
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (interrupted) source_.request_stop();
      }) {
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, note_interrupt);
}

Interrupt::~Interrupt() {
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  std::signal(SIGUSR1, interrupted ? SIG_IGN : SIG_DFL);
}

}  // namespace cleave::cli
