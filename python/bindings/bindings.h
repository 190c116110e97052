#pragma once

#include <nanobind/nanobind.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "cleave/graph/graph.h"
#include "cleave/plan/plan.h"

// The parts of the extension module. Each file binds one part of the library; what has a natural
// form in Python (trees, pictures, JAX) is written there, in python/cleave.
namespace cleave::python {

namespace nb = nanobind;

void bind_modules(nb::module_& m);
void bind_planning(nb::module_& m);
void bind_compiled(nb::module_& m);
void bind_algebra(nb::module_& m);
void bind_rules(nb::module_& m);
void bind_machines(nb::module_& m);
void bind_running(nb::module_& m);
void bind_discovery(nb::module_& m);
void bind_tensors(nb::module_& m);
void bind_transforms(nb::module_& m);
void bind_flow(nb::module_& m);
void bind_programs(nb::module_& m);

// A module of Python: a graph that nobody changes.
struct PyModule {
  std::shared_ptr<const Graph> graph;
};

// Runs `work(stop_token)` on a thread of its own without the lock of the interpreter, while this
// thread looks for Ctrl-C: it asks the work to stop, waits for it, and raises KeyboardInterrupt.
template <typename F>
auto interruptible(F work) {
  using Result = decltype(work(std::stop_token()));
  std::stop_source stop;
  std::optional<Result> result;
  std::exception_ptr error, interrupt;
  std::mutex mutex;
  std::condition_variable ended;
  bool is_done = false;
  {
    nb::gil_scoped_release released;
    std::thread worker([&] {
      try {
        result.emplace(work(stop.get_token()));
      } catch (...) {
        error = std::current_exception();
      }
      std::lock_guard lock(mutex);
      is_done = true;
      ended.notify_all();
    });
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return is_done; })) {
      lock.unlock();
      if (!interrupt) {
        nb::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) {
          interrupt = std::make_exception_ptr(nb::python_error());
          stop.request_stop();
        }
      }
      lock.lock();
    }
    lock.unlock();
    worker.join();
  }
  if (interrupt) std::rethrow_exception(interrupt);
  if (error) std::rethrow_exception(error);
  return std::move(*result);
}

// A function of Python that any thread may call with a line of text; an empty one for None. What it
// raises is printed as an exception that nobody could take, since planning goes on.
inline std::function<void(const std::string&)> line_callback(nb::object callback) {
  if (callback.is_none()) return {};
  // The last holder may be a thread without the interpreter's lock.
  std::shared_ptr<nb::object> held(new nb::object(std::move(callback)), [](nb::object* object) {
    nb::gil_scoped_acquire locked;
    delete object;
  });
  return [held](const std::string& line) {
    nb::gil_scoped_acquire locked;
    try {
      (*held)(line);
    } catch (nb::python_error& e) {
      e.discard_as_unraisable("a callback of cleave");
    }
  };
}

}  // namespace cleave::python
