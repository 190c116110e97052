#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "cleave/kernels/array.h"
#include "cleave/spmd/transfer.h"

namespace cleave {

// Where the devices of one process meet to change layouts. A device that comes first leaves what it
// brings and is put aside; its thread runs another device meanwhile. The last one to come wakes the
// others; all do their part of the work, reading each other's memory; the last one to finish wakes
// them again. So few threads serve many devices, and none is blocked.
class Meetings {
 public:
  struct Member {
    const Transfer* plan = nullptr;
    Shape shape;                  // of its operand, which is packed
    std::byte* source = nullptr;  // the operand of this round
  };
  struct Meeting {
    std::vector<int64_t> group;
    std::vector<Member> members;  // in the order of the group
    size_t arrived = 0, worked = 0;
    Array result;  // if all members get the same
    Array spare;   // for the next round, if the result of this one is still held
  };

  // The meeting of a group at the n-th place of the program where `transfer` stands; made at the
  // first call, which every member makes once, before anything runs.
  size_t find(int64_t transfer, int64_t n, const std::vector<int64_t>& group);
  Meeting& meeting(size_t index) { return *meetings_[index]; }

  // The caller is put aside, and all of the group are woken when the last one has come or has
  // finished its work. It must not touch its state any more. If all members get the same result, of
  // type `shared`, there is room for it when all have come.
  void arrive(Meeting& meeting, DType dtype, const Shape* shared);
  void finish(Meeting& meeting);

  // Runs all devices on `workers` threads, the calling one included: `advance(device)` says whether
  // the device has ended (true) or waits (false). Throws what a device threw. A worker prefers the
  // devices that it ran before, whose memory is in its cache.
  void run(int64_t devices, int workers, const std::function<bool(int64_t)>& advance);

  ~Meetings();
  Meetings() = default;
  Meetings(const Meetings&) = delete;
  Meetings& operator=(const Meetings&) = delete;

 private:
  void work(int worker);
  void wake(const Meeting& meeting);
  int64_t take(std::unique_lock<std::mutex>& lock, int worker);

  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::map<std::tuple<int64_t, int64_t, std::vector<int64_t>>, size_t> index_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  int workers_ = 1;
  uint64_t generation_ = 0;
  size_t active_ = 0;  // workers inside a run
  bool quit_ = false;
  const std::function<bool(int64_t)>* advance_ = nullptr;
  std::vector<int64_t> ready_;
  std::atomic<bool> news_{false};  // something may be ready
  int64_t left_ = 0;               // devices that have not ended
  std::exception_ptr failure_;
};

}  // namespace cleave
