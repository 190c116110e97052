#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/ops/collective/transport.h"
#include "cleave/runtime/packet.h"
#include "cleave/runtime/session.h"
#include "cleave/runtime/watch.h"
#include "cleave/runtime/wire.h"

namespace cleave {

// Hears, from threads of the world, what happens to it.
class WorldListener {
 public:
  virtual ~WorldListener() = default;
  virtual void news() = 0;              // a rank has died or ended, or a run has failed
  virtual void done(uint64_t key) = 0;  // a countdown of planned messages has ended
  // Adds to `where` which devices wait, and in which op; false: something runs.
  virtual bool waits(std::string& where) = 0;
};

// Devices divided over ranks: blocks, in order; if they do not divide evenly, the first ranks have
// one more.
//   8 devices over 4 ranks:  0 1 | 2 3 | 4 5 | 6 7
//   8 devices over 3 ranks:  0 1 2 | 3 4 5 | 6 7
struct DeviceBlocks {
  int64_t devices = 1;
  int ranks = 1;

  int64_t first(int rank) const {
    return rank * (devices / ranks) + std::min<int64_t>(rank, devices % ranks);
  }
  int64_t count(int rank) const { return first(rank + 1) - first(rank); }
  int64_t largest() const { return count(0); }
  int rank_of(int64_t device) const {
    const int64_t each = devices / ranks, more = devices % ranks, longer = more * (each + 1);
    return static_cast<int>(device < longer ? device / (each + 1)
                                            : more + (device - longer) / each);
  }
};

// The processes that run one program together, each on its own part of every mesh's devices: the
// ranks of mpirun. All ranks run the same program, and begin the same runs in the same order.
//
//   mesh of 8 devices, 3 ranks:  rank 0 has devices 0 to 2, rank 1 has 3 to 5, rank 2 has 6 and 7
//   mesh of 3 devices, 4 ranks:  a UserError
//   mesh of 1 device:            every rank runs it for itself
//
// When a rank dies, or ends before the others, every device that waits for it gets a TransportError
// that names it.
class World {
 public:
  // The ranks that this process was started with by mpirun (or cleave launch); null if it runs
  // alone. Joins them at the first call, which loads MPI. At the end of the process the ranks part.
  static World* of_process();
  // Whether this process was started as one of several ranks, and as which. Load nothing.
  static bool is_rank();
  static int rank_of_process();

  struct Options {
    double silence = 60;  // seconds after which a rank that says nothing counts as dead
    bool watch = true;    // off: for tests in one process
    // Seconds after which ranks that all wait, while nothing happens on any, are in a circle.
    double patience = 10;
  };
  explicit World(std::shared_ptr<Wire> wire) : World(std::move(wire), Options{}) {}
  World(std::shared_ptr<Wire> wire, Options options);
  ~World();  // parts, if `part` has not been called

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool one_host() const { return wire_->one_host(); }

  // The devices of this rank. Throws UserError if there are fewer devices than ranks.
  std::vector<int64_t> devices_of(const Mesh& mesh) const;

  // Every rank's arrays, on every rank. `what` is for messages.
  std::vector<std::vector<Array>> gather(std::vector<Array> arrays, std::string_view what);

  // Messages whose memory is laid out; countdowns carry the number that `add_listener` gave. Once a
  // listener is removed, it is not called any more.
  void post(std::span<const Planned> sends, std::span<const Planned> receives) {
    wire_->post(sends, receives);
  }
  void forget(int begin, int end) { wire_->forget(begin, end); }  // tags; see Wire
  uint64_t add_listener(WorldListener* listener);
  void remove_listener(uint64_t number);
  // Keeps memory until the world ends, since messages of a failed run may still be written to it.
  void keep(std::shared_ptr<const void> memory);
  // Expires with the world: for objects that may outlive it.
  std::weak_ptr<void> life() const { return life_; }

  // The end of this rank's program; `error` says what went wrong, if something did. Rank 0 gets
  // what every rank said (nothing from those that died); the others get their own. Then `release`
  // waits until rank 0 has been there, and disconnects.
  std::vector<std::optional<std::string>> part(const std::optional<std::string>& error);
  void release();
  // The lowest rank that is not known to be dead: the one to speak for all.
  int speaker() const;

 private:
  friend class RankTransport;

  void deliver(int from, Parcel message);
  void send(int rank, const Packet& packet);
  void send_all(const Packet& packet);
  std::shared_ptr<Session> open_session(int64_t num_devices);
  void close_session(Session& session);
  // Blocks until `ready`; throws TransportError if that can never be: the session has failed, a
  // rank has died, or `hopeless` says why.
  void wait(std::unique_lock<std::mutex>& lock, const Session& session, std::string_view who,
            std::string_view what, const std::function<bool()>& ready,
            const std::function<std::string()>& hopeless);
  // Throws what `wait` throws, if there is reason to.
  // Finding a circle since there were `circles` of them is a reason too.
  void check(const Session& session, std::string_view who, std::string_view what, uint64_t circles,
             const std::function<std::string()>& hopeless) const;
  void tell_news();
  Watch::Standing standing();
  // A device runs from here on (1) or not any more (-1).
  void count_running(int64_t change) { running_ += change; }
  std::vector<std::vector<Array>> gather_in(Session& session, std::vector<Array> arrays,
                                            std::string_view what);

  const std::shared_ptr<Wire> wire_;
  const int rank_, size_;
  std::unique_ptr<Watch> watch_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::shared_ptr<Session>> sessions_;
  int64_t next_session_ = 0;
  std::shared_ptr<Session> common_;   // for gatherings outside of runs
  std::map<int, std::string> dead_;   // why
  std::string circle_;                // the last one found: which devices wait, and in which op
  uint64_t circles_ = 0;              // found so far
  std::vector<std::string> waits_;    // the devices that are in `wait`, and their ops
  std::atomic<int64_t> running_{0};   // devices that run, and do not wait here
  std::map<int, std::string> ended_;  // with which error; may be empty
  std::string address_;               // of the watch, when rank 0 has told it
  bool parted_ = false, orderly_ = false, released_ = false;
  std::mutex listening_;
  std::map<uint64_t, WorldListener*> listeners_;
  uint64_t next_listener_ = 0;
  std::vector<std::shared_ptr<const void>> kept_;
  std::shared_ptr<void> life_ = std::make_shared<int>(0);
};

}  // namespace cleave
