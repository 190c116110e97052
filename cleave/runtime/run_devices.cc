#include "cleave/runtime/run_devices.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace cleave {
namespace {

// Threads that wait for work, and more of them where all are busy: devices wait for each other in
// collectives, so each needs one of its own. They keep what libraries prepare per thread.
class Workers {
 public:
  void start(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() <= idle_)
      ready_.notify_one();
    else
      std::thread([this] { work(); }).detach();
  }

 private:
  static constexpr size_t kMostIdle = 256;

  void work() {
    std::unique_lock lock(mutex_);
    while (!tasks_.empty() || idle_ < kMostIdle) {
      ++idle_;
      ready_.wait(lock, [this] { return !tasks_.empty(); });
      --idle_;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  size_t idle_ = 0;
};

// Never freed: its threads end with the process.
Workers& workers() {
  static Workers& workers = *new Workers;
  return workers;
}

}  // namespace

void run_devices(Transport& transport, std::span<const int64_t> devices,
                 const std::function<void(int64_t device)>& task) {
  std::mutex mutex;
  std::exception_ptr cause, consequence;
  auto run = [&](int64_t device) {
    try {
      task(device);
      transport.leave(device);
    } catch (const TransportError& error) {
      transport.fail(device, error.what());
      std::lock_guard lock(mutex);
      if (!consequence) consequence = std::current_exception();
    } catch (const std::exception& error) {
      transport.fail(device, error.what());
      std::lock_guard lock(mutex);
      if (!cause) cause = std::current_exception();
    }
  };
  std::condition_variable all_ended;
  size_t running = devices.empty() ? 0 : devices.size() - 1;
  for (size_t i = 1; i < devices.size(); ++i)
    workers().start([&, device = devices[i]] {
      run(device);
      std::lock_guard lock(mutex);
      if (--running == 0) all_ended.notify_one();
    });
  if (!devices.empty()) run(devices[0]);
  {
    std::unique_lock lock(mutex);
    all_ended.wait(lock, [&] { return running == 0; });
  }
  if (cause) std::rethrow_exception(cause);
  if (consequence) std::rethrow_exception(consequence);
}

}  // namespace cleave
