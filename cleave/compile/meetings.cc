#include "cleave/compile/meetings.h"

#include <immintrin.h>

#include <algorithm>
#include <tuple>

#include "cleave/core/error.h"
#include "cleave/kernels/onednn.h"

namespace cleave {
namespace {

constexpr int kSpins = 2000;  // tens of microseconds

}  // namespace

size_t Meetings::find(int64_t transfer, int64_t n, const std::vector<int64_t>& group) {
  const auto [it, fresh] = index_.try_emplace(std::tuple(transfer, n, group), meetings_.size());
  if (fresh) {
    auto meeting = std::make_unique<Meeting>();
    meeting->group = group;
    meeting->members.resize(group.size());
    meetings_.push_back(std::move(meeting));
  }
  return it->second;
}

void Meetings::wake(const Meeting& meeting) {
  for (int64_t device : meeting.group) ready_.push_back(device);
  news_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Meetings::arrive(Meeting& meeting, DType dtype, const Shape* shared) {
  std::lock_guard lock(mutex_);
  if (++meeting.arrived < meeting.group.size()) return;
  meeting.worked = 0;
  auto is_kept = [](const Array& array) {
    return !array.valid() || array.buffer().use_count() > 1;
  };
  if (shared && is_kept(meeting.result)) {
    if (is_kept(meeting.spare)) meeting.spare = Array(dtype, *shared);
    std::swap(meeting.result, meeting.spare);
  }
  wake(meeting);
}

void Meetings::finish(Meeting& meeting) {
  std::lock_guard lock(mutex_);
  if (++meeting.worked < meeting.group.size()) return;
  meeting.arrived = 0;
  wake(meeting);
}

int64_t Meetings::take(std::unique_lock<std::mutex>& lock, int worker) {
  while (true) {
    if (left_ == 0 || failure_) return -1;
    if (!ready_.empty()) {
      auto it = std::find_if(ready_.begin(), ready_.end(),
                             [&](int64_t device) { return device % workers_ == worker; });
      if (it == ready_.end()) it = ready_.begin();
      const int64_t device = *it;
      ready_.erase(it);
      if (ready_.empty()) news_.store(false, std::memory_order_relaxed);
      return device;
    }
    // What is awaited usually comes soon: another thread is at work on it.
    lock.unlock();
    for (int turn = 0; turn < kSpins && !news_.load(std::memory_order_acquire); ++turn) _mm_pause();
    lock.lock();
    if (ready_.empty() && left_ != 0 && !failure_) {
      news_.store(false, std::memory_order_relaxed);
      changed_.wait(lock);
    }
  }
}

void Meetings::work(int worker) {
  std::unique_lock lock(mutex_);
  while (true) {
    const int64_t device = take(lock, worker);
    if (device < 0) return;
    lock.unlock();
    bool ended = false;
    std::exception_ptr error;
    try {
      ended = (*advance_)(device);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !failure_) failure_ = error;
    if (ended) --left_;
    if (left_ == 0 || failure_) {
      news_.store(true, std::memory_order_release);
      changed_.notify_all();
    }
  }
}

void Meetings::run(int64_t devices, int workers, const std::function<bool(int64_t)>& advance) {
  for (auto& meeting : meetings_) meeting->arrived = meeting->worked = 0;
  {
    std::lock_guard lock(mutex_);
    internal_check(threads_.empty() || workers == workers_,
                   "a program runs on another number of threads than before");
    workers_ = workers;
    advance_ = &advance;
    ready_.clear();
    for (int64_t device = 0; device < devices; ++device) ready_.push_back(device);
    left_ = devices;
    failure_ = nullptr;
    ++generation_;
    active_ = static_cast<size_t>(workers) - 1;
    changed_.notify_all();
  }
  for (int worker = static_cast<int>(threads_.size()) + 1; worker < workers; ++worker)
    threads_.emplace_back([this, worker, seen = generation_ - 1]() mutable {
      onednn_stream();  // made now rather than when the first product comes
      while (true) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return quit_ || generation_ != seen; });
          if (quit_) return;
          seen = generation_;
        }
        work(worker);
        std::lock_guard lock(mutex_);
        if (--active_ == 0) changed_.notify_all();
      }
    });
  work(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return active_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

Meetings::~Meetings() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace cleave
