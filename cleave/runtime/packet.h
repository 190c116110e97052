#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/kernels/array.h"
#include "cleave/runtime/wire.h"

namespace cleave {

// What ranks say to each other.
struct Packet {
  enum class Kind : uint8_t {
    Part,     // a device's arrays for a meeting
    Lot,      // a rank's arrays for a gathering of all ranks
    Offer,    // arrays sent on a channel, to the rank that keeps the channel
    Request,  // a device wants the next arrays of a channel
    Grant,    // and gets them
    Left,     // a device makes no further call
    Failed,   // a device failed; `what` says why
    Ended,    // the rank's program is over
    Address,  // the address at which the ranks watch each other, in `what`
  };

  Kind kind = Kind::Part;
  int64_t session = 0;  // which run it belongs to
  int64_t from = 0;     // a device; of a Lot, a rank
  std::vector<int64_t> to =
      {};                 // devices; those of other ranks than the receiving one do not count
  uint64_t group = 0;     // a digest of the group that meets; of channels, their number
  std::string what = {};  // the collective, for messages
  std::vector<Array> arrays = {};  // an invalid array arrives as such
};

// Elements are copied once, into the message; decoded arrays are views of it.
Parcel encode(const Packet& packet);
Packet decode(Parcel message);

}  // namespace cleave
