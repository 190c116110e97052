#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cleave/core/dtype.h"
#include "cleave/core/shard_layout.h"
#include "cleave/core/sharding.h"

namespace cleave {

// Where the elements of a value are. Usually the spec says it; `boxes` says it where devices hold
// more than their shards (a halo). A value without a mesh is whole on every device.
struct Layout {
  ShardingSpec spec;
  std::shared_ptr<const std::vector<ShardSlice>> boxes;  // by device

  ShardSlice box(const Shape& shape, int64_t device) const;
};

// One device's part in a change of layout: what it sends, what it gets, and how parts are combined.
// Any step of a reshard is of this form, uneven shards included:
//
//   9 elements over {"x"=2, "y"=2}, chunks 3,3,3,0; all_gather over y gives chunks 5,4 over x:
//   element 5 moves from the devices of x=0 to those of x=1
//
// Elements come from the device that agrees with the receiver along all axes that neither shard nor
// reduce the source: from itself where it has them.
struct Transfer {
  struct Piece {
    int64_t device;
    int64_t part;  // received: which of the parts that are combined
    Shape start;   // sent: in the own array; received: in the result
    Shape size;
    Shape source;  // received from the device itself: in the own array
  };

  Shape shape;                 // of the result on this device
  std::vector<int64_t> group;  // devices that meet, in order; empty: nothing to exchange
  std::vector<Piece> sends;
  std::vector<Piece> receives;  // those from this device itself included
  int64_t parts = 1;            // number of parts to combine, in order
  ReduceOp reduce = ReduceOp::Sum;
  ReduceOp fill = ReduceOp::Sum;  // whose identity newly partial parts hold
  bool is_identity = false;       // newly partial: this device holds the identity of `fill`
  bool pads = false;           // newly partial along axes that sharded it: filled with the identity
  bool is_all_reduce = false;  // everyone of the group sends all it has to everyone
  int64_t bytes_received = 0;  // from other devices
};

Transfer plan_transfer(const Layout& from, const Layout& to, const Shape& shape, DType dtype,
                       int64_t device);

// `axes` cut where refs of `others` begin or end:  {"a"} by {"a":(1)2} -> {"a":(1)2, "a":(2)8}
AxisList split_at(const AxisList& axes, const AxisList& others);
// The parts of `axes` that no ref of `others` covers, and those that one does.
AxisList without(const AxisList& axes, const AxisList& others);
AxisList intersection(const AxisList& axes, const AxisList& others);

}  // namespace cleave
