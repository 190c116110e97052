#pragma once

#include <algorithm>
#include <thread>
#include <vector>

namespace cleave::plan::solver {

// Runs task(0) ... task(count - 1) on at most `threads` threads. Tasks must not depend on each
// other.
template <class Task>
void run_parallel(int count, int threads, const Task& task) {
  if (threads <= 1 || count <= 1) {
    for (int w = 0; w < count; ++w) task(w);
    return;
  }
  const int used = std::min(count, threads);
  std::vector<std::jthread> pool;
  for (int p = 1; p < used; ++p) {
    pool.emplace_back([=, &task] {
      for (int w = p; w < count; w += used) task(w);
    });
  }
  for (int w = 0; w < count; w += used) task(w);
}

}  // namespace cleave::plan::solver
