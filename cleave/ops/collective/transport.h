#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/core/sharding.h"
#include "cleave/kernels/array.h"

namespace cleave {

// One device's part in a collective: which device calls, which ones take part, and for which op.
// Every device of `group` makes the same call with the same group; the order of the group is the
// order of the parts. The k-th call of a device with a group meets the k-th call of the others with
// that group.
struct Meeting {
  int64_t device = 0;
  std::span<const int64_t> group;  // distinct devices, the caller among them
  std::string_view what;           // for messages: "stablehlo.all_gather %3"
};

// How the parts of a reduction are combined: a known operator, or any function of two arrays of one
// shape. Parts are combined in the order of the group, whatever the timing; sums of 16-bit floats
// are accumulated in float32.
struct PartReducer {
  ReduceOp op = ReduceOp::Sum;
  std::function<Array(const Array&, const Array&)> combine;  // if set, used instead of `op`
};

// A collective that could not be held: a device failed, ended, or asked for something else. The
// message names the device and the collective.
class TransportError : public UserError {
 public:
  using UserError::UserError;
};

// Moves arrays between devices: what collectives ask of the runtime, which implements it
// (cleave/runtime/local_transport.h, rank_transport.h). Every device calls from its own thread (or
// process) and blocks until the group has met. Arrays that come back may be shared between the
// devices of one process: they are read, never written.
//
//   group {0, 1, 2}, parts [2], [2], [1]      all_gather along 0: every device gets [5]
//   group {0, 1},    parts [3], sizes {2, 1}  reduce_scatter: device 0 gets [2], device 1 [1]
//
// Uneven and empty parts are normal.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int64_t num_devices() const = 0;

  // The parts of the group, joined along `dim`. They agree in the other dimensions.
  virtual Array all_gather(const Meeting& meeting, const Array& part, int64_t dim);
  // Parts of one shape, combined.
  virtual Array all_reduce(const Meeting& meeting, const Array& part, const PartReducer& reducer);
  // As all_reduce, but member i keeps only its piece along `dim`: sizes[i] elements after the
  // pieces of the members before it.
  virtual Array reduce_scatter(const Meeting& meeting, const Array& part, int64_t dim,
                               std::span<const int64_t> sizes, const PartReducer& reducer);
  // Cuts `part` along `split_dim` into pieces of `sizes`, sends piece i to member i, and joins what
  // arrives along `concat_dim` in the order of the group.
  Array all_to_all(const Meeting& meeting, const Array& part, int64_t split_dim, int64_t concat_dim,
                   std::span<const int64_t> sizes);
  // Sends `part` along the pairs (source device, target device); a device is target at most once.
  // Gives what arrived, or an invalid array if nothing was sent to this device.
  Array permute(const Meeting& meeting, const Array& part,
                std::span<const std::pair<int64_t, int64_t>> pairs);
  // The part of the member `root`.
  Array broadcast(const Meeting& meeting, const Array& part, int64_t root);

  // The two below carry all the others. Every member's array, in the order of the group.
  virtual std::vector<Array> gather(const Meeting& meeting, const Array& part) = 0;
  // outgoing[i] goes to member i; what member i sent comes back at i. Invalid arrays are not sent.
  // comes[i] says whether member i sends anything to this device (empty: all do), so that no
  // message is needed to say that nothing comes.
  virtual std::vector<Array> exchange(const Meeting& meeting, std::vector<Array> outgoing,
                                      const std::vector<bool>& comes = {}) = 0;

  // Point to point, in order per channel. `receive` blocks; `send` does not.
  virtual void send(int64_t device, int64_t channel, std::vector<Array> arrays) = 0;
  virtual std::vector<Array> receive(int64_t device, int64_t channel, std::string_view what) = 0;

  // The device makes no further call. Every device that waits for it, now or later, gets a
  // TransportError.
  virtual void leave(int64_t device) = 0;
  // The device failed: every device in a collective, now or later, gets a TransportError that says
  // so.
  virtual void fail(int64_t device, std::string_view message) = 0;
};

// Parts joined along a dimension, or combined by a reducer: transports are made of these.
Array join(std::span<const Array> parts, int64_t dim);
Array combine(std::span<const Array> parts, const PartReducer& reducer);

}  // namespace cleave
