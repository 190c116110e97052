#include "cleave/compile/team.h"

#include <immintrin.h>
#include <omp.h>

#include "cleave/kernels/onednn.h"

namespace cleave {
namespace {

constexpr int kSpins = 4000;  // of a helper before it sleeps: about 50 microseconds
constexpr uint64_t kTaskBits = 32;
constexpr uint64_t kTaskMask = (uint64_t{1} << kTaskBits) - 1;

}  // namespace

Team::Team(int threads) {
  for (int worker = 1; worker < threads; ++worker)
    helpers_.emplace_back([this, worker] { help(worker); });
}

Team::~Team() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Team::run_all(int64_t tasks, const void* task, Call call) {
  // Nobody is inside the last round: its tasks were all taken, and all done.
  tasks_ = tasks;
  task_ = task;
  call_ = call;
  left_.store(tasks, std::memory_order_relaxed);
  const uint64_t round = (round_.load(std::memory_order_relaxed) + 1) & kTaskMask;
  next_.store(round << kTaskBits, std::memory_order_release);
  round_.store(round, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  work(round, 0);
  for (int turn = 0; left_.load(std::memory_order_acquire) > 0; ++turn) {
    if (turn < kSpins)
      _mm_pause();
    else
      std::this_thread::yield();
  }
}

void Team::work(uint64_t round, int worker) {
  uint64_t at = next_.load(std::memory_order_acquire);
  while ((at >> kTaskBits) == round) {
    const auto index = static_cast<int64_t>(at & kTaskMask);
    if (index >= tasks_) return;
    if (!next_.compare_exchange_weak(at, at + 1, std::memory_order_acq_rel)) continue;
    call_(task_, index, worker);
    left_.fetch_sub(1, std::memory_order_acq_rel);
    at = next_.load(std::memory_order_acquire);
  }
}

void Team::help(int worker) {
  omp_set_num_threads(1);
  onednn_stream();  // made now rather than when the first product comes
  uint64_t seen = 0;
  while (true) {
    uint64_t round = round_.load(std::memory_order_seq_cst);
    for (int turn = 0; round == seen && turn < kSpins && !quit_; ++turn) {
      _mm_pause();
      round = round_.load(std::memory_order_acquire);
    }
    if (round == seen) {
      std::unique_lock lock(mutex_);
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return quit_ || round_.load(std::memory_order_seq_cst) != seen; });
      asleep_.fetch_sub(1, std::memory_order_seq_cst);
      if (quit_) return;
      round = round_.load(std::memory_order_acquire);
    }
    if (quit_) return;
    seen = round;
    work(round, worker);
  }
}

}  // namespace cleave
