#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>

namespace cleave::solver {

// How much work is left, and whether the clock or the caller wants to stop earlier. Only the clock
// makes results depend on the machine, and then `cut` says so.
class Budget {
 public:
  Budget(double work, double seconds, std::stop_token stop)
      : start_(Clock::now()), work_(work), seconds_(seconds), stop_(std::move(stop)) {}

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double time_limit() const { return seconds_; }
  void spend(double work) { spent_ += work; }
  double spent() const { return spent_; }
  double total() const { return work_; }
  void allow(double work) { work_ = work; }

  // Whether the clock has run out or the caller asked to stop; to be polled inside long steps.
  bool expired() const { return stop_.stop_requested() || seconds() >= seconds_; }
  // The same for a part that may take that fraction of the time, and says so when it is cut short.
  bool expired(double fraction) {
    if (!stop_.stop_requested() && seconds() < fraction * seconds_) return false;
    return hurried_ = true;
  }
  // Between rounds: notes why it is over.
  bool done() {
    if (expired()) cut_ = true;
    return cut_ || spent_ >= work_;
  }
  // The fraction that is used up: of the work, unless the clock will run out first.
  double progress() {
    const double by_work = spent_ / work_;
    const double by_time = seconds() / seconds_;
    if (!hurried_ && by_time > 0.35 && by_time > 1.15 * by_work) hurried_ = true;
    return hurried_ ? (by_time > by_work ? by_time : by_work) : by_work;
  }
  bool cut() const { return cut_ || hurried_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  double work_;
  double seconds_;
  std::stop_token stop_;
  double spent_ = 0;
  bool cut_ = false;
  bool hurried_ = false;  // the clock sets the pace
};

}  // namespace cleave::solver
