#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace cleave {

// Bytes on their way between ranks. The size is a multiple of kLine, so that the number of lines of
// a message of many GiB still fits into MPI's counts, and payloads stay aligned.
struct Parcel {
  static constexpr size_t kLine = 64;
  std::shared_ptr<std::byte[]> data;
  size_t size = 0;
};

// The way between the processes that run a program together: whole messages, in order for every
// pair of ranks. All that the MPI library of Cleave (cleave/mpi) implements; it knows nothing of
// arrays, devices and collectives, and needs no symbol of the rest, so that it can be loaded when a
// process finds itself started by mpirun, and only then.
class Wire {
 public:
  using Allocate = std::function<std::shared_ptr<std::byte[]>(size_t bytes)>;
  using Deliver = std::function<void(int from, Parcel message)>;

  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool one_host() const = 0;  // whether all ranks are on one machine

  // What comes from now on, and what has come already, is delivered from the wire's own thread into
  // memory that `allocate` gives. Called once.
  virtual void listen(Allocate allocate, Deliver deliver) = 0;
  // From any thread; does not block. The message is kept until it has gone.
  virtual void send(int to, Parcel message) = 0;
  // Sends what is still to send, and ends the connection together with all ranks. Not `orderly`:
  // somebody has died; nobody is waited for.
  virtual void close(bool orderly) = 0;
};

// What the MPI library exports: the wire of this process, which lives as long as the process.
// Throws std::runtime_error.
using OpenWire = Wire* (*)();
inline constexpr const char* kOpenWire = "cleave_open_wire";

}  // namespace cleave
