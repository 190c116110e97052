#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "cleave/runtime/rank_transport.h"
#include "cleave/runtime/world.h"

namespace cleave {

// The devices of this rank while a compiled program runs over several ranks. A device that waits
// for others is put aside, and its thread runs another one. News for the device wakes it, and it
// then checks whether it can go on. So few threads serve the devices, and none is blocked: messages
// from other ranks, deaths and failures all come as a wake-up.
class RankDevices : public WorldListener {
 public:
  RankDevices(World& world, int64_t num_devices, std::vector<int64_t> own);
  ~RankDevices() override;

  const std::vector<int64_t>& own() const { return own_; }
  const DeviceBlocks& blocks() const { return transport_.blocks(); }
  int rank_of(int64_t device) const { return transport_.rank_of(device); }
  // Tags of this program's messages begin here; there are kTags of them.
  static constexpr int64_t kTags = int64_t{1} << 24;
  int first_tag() const;

  // `countdown` wakes the device when it has ended.
  void attach(Countdown& countdown, int64_t device) const;
  void post(std::span<const Planned> sends, std::span<const Planned> receives) {
    world_.post(sends, receives);
  }
  // Says in what the device waits when it is put aside; `what` lives as long as this.
  void waits_in(int64_t device, const std::string& what) {
    waits_[static_cast<size_t>(device - own_[0])] = &what;
  }
  // The device runs on, or checks once more before it is put aside. May be called from any thread.
  void wake(int64_t device);
  // Throws if the device waits in vain, for example for a rank that has died.
  void check(int64_t device, std::string_view what, std::span<const int64_t> group) const {
    transport_.check(device, what, group);
  }

  // Runs the own devices on `workers` threads, the calling one included: `advance(index)` says
  // whether the device has ended (true) or waits (false). Throws what a device threw; if several
  // did, the cause rather than a consequence of it. After a failure the program cannot run again.
  // `blocks`: devices wait for others inside of `advance` as well.
  void run(int workers, bool blocks, const std::function<bool(size_t index)>& advance);

  void news() override;
  void done(uint64_t device) override { wake(static_cast<int64_t>(device)); }
  bool waits(std::string& where) override;

 private:
  enum class State : uint8_t { Ready, Running, Nudged, Aside, Ended };

  void work();
  void wake_index(size_t index);
  void fail(size_t index, std::exception_ptr error, bool is_consequence, const char* message);

  World& world_;
  const std::weak_ptr<void> world_life_;
  const std::vector<int64_t> own_;
  RankTransport transport_;
  uint64_t number_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;
  std::vector<const std::string*> waits_;  // by device
  bool blocks_ = false;
  std::vector<size_t> ready_;
  size_t left_ = 0;
  bool failed_ = false;
  std::exception_ptr cause_, consequence_;
  const std::function<bool(size_t)>* advance_ = nullptr;
  std::vector<std::thread> threads_;
  uint64_t generation_ = 0;
  size_t active_ = 0;
  bool quit_ = false;
};

}  // namespace cleave
