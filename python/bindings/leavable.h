#pragma once

#include <cxxabi.h>

#include <map>
#include <memory>

#include "bindings.h"
#include "cleave/discover/operator.h"

namespace cleave::python {

// The calls of a function of Python that threads are in.
class CallsUnderWay {
 public:
  // A call, as long as it lives. The thread holds the interpreter's lock.
  class Call {
   public:
    Call(CallsUnderWay& calls, const AttrMap& attrs, std::span<const Array> operands)
        : calls_(calls), thread_(PyThread_get_thread_ident()) {
      const std::lock_guard lock(calls_.mutex_);
      if (calls_.is_over_) throw BrokenOperator("discover: stopped");
      calls_.open_[thread_] = {std::chrono::steady_clock::now(), &attrs, operands};
    }
    ~Call() {
      const std::lock_guard lock(calls_.mutex_);
      calls_.open_.erase(thread_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallsUnderWay& calls_;
    unsigned long thread_;
  };

  // "5x4 f64; n=2" of one that has run for longer; empty if none has.
  std::string longer_than(double seconds) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    for (const auto& [thread, open] : open_) {
      if (std::chrono::duration<double>(now - open.begin).count() <= seconds) continue;
      Sample call{{}, *open.attrs};
      for (const Array& operand : open.operands)
        call.operands.push_back({operand.dtype(), operand.shape()});
      return to_string(call);
    }
    return {};
  }

  // Refuses calls from now on, and raises KeyboardInterrupt in each that is under way: it ends
  // those that run in Python, and not those that are in a kernel. The caller holds the
  // interpreter's lock.
  void interrupt() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    for (const auto& [thread, open] : open_)
      PyThreadState_SetAsyncExc(thread, PyExc_KeyboardInterrupt);
  }

 private:
  struct Open {
    std::chrono::steady_clock::time_point begin;
    const AttrMap* attrs;
    std::span<const Array> operands;
  };
  std::mutex mutex_;
  bool is_over_ = false;
  std::map<unsigned long, Open> open_;  // by thread
};

// Like `interruptible`, for work that calls what may never end. `look()` is asked now and
// then, with the interpreter's lock: it throws if the work is to stop, as Ctrl-C does too. Work
// that has not stopped some seconds later is left behind with all that it owns: it must refer to
// nothing of the caller's.
template <typename F, typename Look>
auto leavable(F work, CallsUnderWay& calls, Look look) {
  constexpr std::chrono::seconds kPatience(3);
  using Result = decltype(work(std::stop_token()));
  struct State {
    explicit State(F w) : work(std::move(w)) {}
    F work;
    std::stop_source stop;
    std::optional<Result> result;
    std::exception_ptr error;
    std::mutex mutex;
    std::condition_variable ended;
    bool is_done = false;
  };
  const auto state = std::make_shared<State>(std::move(work));
  std::exception_ptr interrupt;
  std::chrono::steady_clock::time_point leave;
  {
    nb::gil_scoped_release released;
    std::thread worker([state] {
      try {
        state->result.emplace(state->work(state->stop.get_token()));
      } catch (abi::__forced_unwind&) {  // the interpreter ends
        throw;
      } catch (...) {
        state->error = std::current_exception();
      }
      const std::lock_guard lock(state->mutex);
      state->is_done = true;
      state->ended.notify_all();
    });
    std::unique_lock lock(state->mutex);
    const auto is_done = [&] { return state->is_done; };
    while (!state->ended.wait_for(lock, std::chrono::milliseconds(50), is_done)) {
      lock.unlock();
      if (!interrupt) {
        nb::gil_scoped_acquire locked;
        try {
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
          look();
        } catch (...) {
          interrupt = std::current_exception();
          calls.interrupt();
          state->stop.request_stop();
          leave = std::chrono::steady_clock::now() + kPatience;
        }
      } else if (std::chrono::steady_clock::now() > leave) {
        new std::shared_ptr<State>(state);  // never freed: the worker may need it at any time
        worker.detach();
        break;
      }
      lock.lock();
    }
    if (lock.owns_lock()) lock.unlock();
    if (worker.joinable()) worker.join();
  }
  if (interrupt) std::rethrow_exception(interrupt);
  if (state->error) std::rethrow_exception(state->error);
  return std::move(*state->result);
}

}  // namespace cleave::python
