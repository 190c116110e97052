#pragma once

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace cleave {

// Runs task(0) ... task(count - 1) on at most `threads` threads. Tasks must not depend on each
// other. If a task throws, the exception is thrown again here when all threads have ended.
template <class Task>
void run_parallel(int count, int threads, const Task& task) {
  if (threads <= 1 || count <= 1) {
    for (int w = 0; w < count; ++w) task(w);
    return;
  }
  const int used = std::min(count, threads);
  std::vector<std::exception_ptr> errors(used);
  const auto run = [&](int p) noexcept {
    try {
      for (int w = p; w < count; w += used) task(w);
    } catch (...) {
      errors[p] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int p = 1; p < used; ++p) pool.emplace_back([&run, p] { run(p); });
    run(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace cleave
