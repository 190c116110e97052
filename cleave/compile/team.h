#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace cleave {

// Threads that help one device with one op at a time. Tasks are taken one by one, by the caller and
// by every helper that is awake. A helper that the system does not run costs nothing, so the team
// does well on a busy machine too. Helpers look for work for some microseconds before they sleep.
//
//   team.run(8, [&](int64_t task, int worker) { ... });      worker 0 is the caller
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(helpers_.size()) + 1; }

  // Returns when all tasks are done. Tasks must not throw.
  template <typename Task>
  void run(int64_t tasks, const Task& task) {
    if (tasks <= 1 || helpers_.empty()) {
      for (int64_t i = 0; i < tasks; ++i) task(i, 0);
      return;
    }
    run_all(tasks, &task, [](const void* f, int64_t i, int worker) {
      (*static_cast<const Task*>(f))(i, worker);
    });
  }

 private:
  using Call = void (*)(const void* task, int64_t index, int worker);
  void run_all(int64_t tasks, const void* task, Call call);
  void help(int worker);
  // Takes tasks of the round until there are none.
  void work(uint64_t round, int worker);

  // Round in the upper half, next task in the lower one: a helper that wakes up late takes nothing
  // of a round that it has not seen.
  std::atomic<uint64_t> next_{0};
  std::atomic<int64_t> left_{0};
  std::atomic<uint64_t> round_{0};
  std::atomic<bool> quit_{false};
  std::atomic<int64_t> tasks_{0};
  const void* task_ = nullptr;
  Call call_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> asleep_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace cleave
