#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace cleave {

// Bytes on their way between ranks. The size is a multiple of kLine, so that the number of lines of
// a message of many GiB still fits into MPI's counts, and payloads stay aligned.
struct Parcel {
  static constexpr size_t kLine = 64;
  std::shared_ptr<std::byte[]> data;
  size_t size = 0;
};

// How many messages of an exchange are still under way. The wire counts them down, and then tells
// the listener of number `listener` that `key` is done.
struct Countdown {
  std::atomic<int> left{0};        // set before they are posted
  std::atomic<int64_t> wrong{-1};  // the bytes of a message that is not as long as expected
  uint64_t listener = 0, key = 0;
};

// A message between memory that both sides have laid out beforehand: no head, no copy, no
// allocation. Both know what comes under which tag; messages with one tag are in order.
struct Planned {
  int rank = 0;  // the other side
  int tag = 0;   // below Wire::kTags
  std::byte* data = nullptr;
  size_t size = 0;
  Countdown* countdown = nullptr;
};

// The way between the processes that run a program together: whole messages, in order for every
// pair of ranks. This is all that the MPI library of Cleave (cleave/mpi) implements. It knows
// nothing of arrays, devices and collectives, and needs no symbol of the rest, so that it can be
// loaded when a process finds itself started by mpirun, and only then.
class Wire {
 public:
  using Allocate = std::function<std::shared_ptr<std::byte[]>(size_t bytes)>;
  using Deliver = std::function<void(int from, Parcel message)>;
  using Done = std::function<void(uint64_t listener, uint64_t key)>;
  static constexpr int kTags = 1 << 30;

  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool one_host() const = 0;  // whether all ranks are on one machine

  // What comes from now on, and what has come already, is delivered from the wire's own thread into
  // memory that `allocate` gives; `done` is called when a countdown ends. Called once.
  virtual void listen(Allocate allocate, Deliver deliver, Done done) = 0;
  // From any thread; does not block. The message is kept until it has gone.
  virtual void send(int to, Parcel message) = 0;
  // From any thread; does not block. Memory and countdowns stay until the messages are done.
  virtual void post(std::span<const Planned> sends, std::span<const Planned> receives) = 0;
  // Gives up the receives with tags in [begin, end) that have not begun; what still comes there is
  // dropped, until something is posted there again.
  virtual void forget(int begin, int end) = 0;
  // Counts every message that goes, comes or is waited for; odd while one is under way to this
  // rank.
  virtual uint64_t activity() const = 0;
  // Sends what is still to send, and ends the connection together with all ranks. If not `orderly`,
  // a rank has died, and no rank is waited for.
  virtual void close(bool orderly) = 0;
};

// What the MPI library exports: the wire of this process, which lives as long as the process.
// Throws std::runtime_error.
using OpenWire = Wire* (*)();
inline constexpr const char* kOpenWire = "cleave_open_wire";

}  // namespace cleave
