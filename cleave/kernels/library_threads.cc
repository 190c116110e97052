#include "cleave/kernels/library_threads.h"

#include <cblas.h>
#include <omp.h>

#include <atomic>
#include <mutex>

namespace cleave {
namespace {

std::atomic<int>& thread_count() {
  static std::atomic<int> count{1};
  return count;
}

}  // namespace

void set_library_threads(int threads) { thread_count().store(threads < 1 ? 1 : threads); }

int library_threads() { return thread_count().load(std::memory_order_relaxed); }

void apply_library_threads() {
  // OpenMP (oneDNN) keeps the number per calling thread, OpenBLAS once per process.
  thread_local int applied = 0;
  const int wanted = library_threads();
  if (applied == wanted) return;
  static std::mutex mutex;
  static int openblas_applied = 0;
  std::lock_guard lock(mutex);
  if (openblas_applied != wanted) openblas_set_num_threads(wanted);
  openblas_applied = wanted;
  omp_set_num_threads(wanted);
  applied = wanted;
}

}  // namespace cleave
