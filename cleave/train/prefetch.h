#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace cleave::train {

// Items first, first + 1, ... made ahead of time on a thread, at most `ahead` of them. What the
// thread throws arrives at the call of `next` that would have got the item; after that there are
// no more. When the object goes, the thread is asked to stop and is waited for.
//
//   Prefetch<Array> batches([&](int64_t n) { return data.read(n); }, first);
//   Array batch = batches.next();
template <typename T>
class Prefetch {
 public:
  Prefetch(std::function<T(int64_t)> make, int64_t first, size_t ahead = 4)
      : make_(std::move(make)),
        next_(first),
        ahead_(ahead),
        worker_([this, first](const std::stop_token& stop) { work(stop, first); }) {}
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // The number of the item that `next` gives.
  int64_t position() const { return next_; }

  T next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || error_; });
    if (ready_.empty()) std::rethrow_exception(error_);
    T item = std::move(ready_.front());
    ready_.pop_front();
    ++next_;
    lock.unlock();
    changed_.notify_all();
    return item;
  }

 private:
  void work(const std::stop_token& stop, int64_t index) {
    try {
      for (;; ++index) {
        {
          std::unique_lock lock(mutex_);
          if (!changed_.wait(lock, stop, [this] { return ready_.size() < ahead_; })) return;
        }
        T item = make_(index);
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(item));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  const std::function<T(int64_t)> make_;
  int64_t next_;
  const size_t ahead_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<T> ready_;
  std::exception_ptr error_;
  std::jthread worker_;  // the last member: it uses the others
};

}  // namespace cleave::train
