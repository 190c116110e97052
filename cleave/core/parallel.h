#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace cleave {

// Runs task(0) ... task(count - 1) on at most `threads` threads, each of which takes the next task
// as soon as it is free. Tasks must not depend on each other. If tasks throw, the exception of the
// first of them is thrown again here when all threads have ended.
template <class Task>
void run_parallel(int count, int threads, const Task& task) {
  if (threads <= 1 || count <= 1) {
    for (int w = 0; w < count; ++w) task(w);
    return;
  }
  struct Failure {
    int task;
    std::exception_ptr error;
  };
  const int used = std::min(count, threads);
  std::vector<Failure> failures(used, {count, nullptr});  // by thread
  std::atomic<int> next = 0;
  const auto run = [&](int p) noexcept {
    for (int w = next++; w < count && !failures[p].error; w = next++) {
      try {
        task(w);
      } catch (...) {
        failures[p] = {w, std::current_exception()};
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int p = 1; p < used; ++p) pool.emplace_back([&run, p] { run(p); });
    run(0);
  }
  const auto first = std::min_element(failures.begin(), failures.end(),
                                      [](const auto& a, const auto& b) { return a.task < b.task; });
  if (first->error) std::rethrow_exception(first->error);
}

}  // namespace cleave
