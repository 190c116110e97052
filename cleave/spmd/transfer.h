#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cleave/core/dtype.h"
#include "cleave/core/shard_layout.h"
#include "cleave/core/sharding.h"

namespace cleave {

// Where the elements of a value are. Usually the spec says it; `boxes` says it if devices hold more
// than their shards (a halo). A value without a mesh is whole on every device.
struct Layout {
  ShardingSpec spec;
  std::shared_ptr<const std::vector<ShardSlice>> boxes;  // by device

  ShardSlice box(const Shape& shape, int64_t device) const;
};

// A list that devices may have in common, so that a group of n devices does not hold n lists of n.
template <typename T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::vector<T> items)
      : items_(std::make_shared<const std::vector<T>>(std::move(items))) {}

  operator const std::vector<T>&() const {
    static const std::vector<T> kNone;
    return items_ ? *items_ : kNone;
  }
  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }
  size_t size() const { return items_ ? items_->size() : 0; }
  bool empty() const { return size() == 0; }
  const T& operator[](size_t i) const { return (*items_)[i]; }
  bool is_same(const SharedList& other) const { return items_ == other.items_; }

 private:
  const std::vector<T>& all() const { return *this; }

  std::shared_ptr<const std::vector<T>> items_;
};

// One device's part in a change of layout: what it sends, what it gets, and how parts are combined.
// Any step of a reshard is of this form, uneven shards included:
//
//   9 elements over {"x"=2, "y"=2}, chunks 3,3,3,0; all_gather over y gives chunks 5,4 over x:
//   element 5 moves from the devices of x=0 to those of x=1
//
// Elements come from the device that agrees with the receiver along all axes that neither shard nor
// reduce the source: from itself if it has them.
struct Transfer {
  struct Piece {
    int64_t device;
    int64_t part;  // received: which of the parts that are combined
    Shape start;   // sent: in the own array; received: in the result
    Shape size;
    Shape source;  // received from the device itself: in the own array
  };

  // What the device sends to others.
  std::vector<Piece> sends() const;
  // The place of a device in the group.
  size_t place_of(int64_t device) const;

  int64_t device = 0;
  Shape shape;                // of the result on this device
  SharedList<int64_t> group;  // devices that meet, in order; empty: nothing to exchange
  std::vector<Piece> sent;    // see `sends`
  // Those from this device itself included. An all_reduce has none, since every device sends all it
  // has. The group of an all_gather has one list, by the sending device.
  SharedList<Piece> receives;
  int64_t parts = 1;  // number of parts to combine, in order
  ReduceOp reduce = ReduceOp::Sum;
  ReduceOp fill = ReduceOp::Sum;  // whose identity newly partial parts hold
  bool is_identity = false;       // newly partial: this device holds the identity of `fill`
  bool pads = false;           // newly partial along axes that sharded it: filled with the identity
  bool is_all_reduce = false;  // every device of the group sends all it has to all others
  bool is_all_gather =
      false;  // all devices of the group get the same, each element from one device
  int64_t bytes_received = 0;  // from other devices
};

// Plans one change of layout for many devices. What devices have in common is worked out once; the
// layouts must live as long.
class TransferPlanner {
 public:
  TransferPlanner(const Layout& from, const Layout& to, Shape shape, DType dtype);
  TransferPlanner(TransferPlanner&&) noexcept;
  ~TransferPlanner();
  Transfer plan(int64_t device);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
using TransferPlanners = std::map<uint32_t, TransferPlanner>;  // by node

// The same for one device.
Transfer plan_transfer(const Layout& from, const Layout& to, const Shape& shape, DType dtype,
                       int64_t device);

// `axes` cut at the places at which refs of `others` begin or end:  {"a"} by {"a":(1)2} ->
// {"a":(1)2, "a":(2)8}
AxisList split_at(const AxisList& axes, const AxisList& others);
// The parts of `axes` that no ref of `others` covers, and those that one does.
AxisList without(const AxisList& axes, const AxisList& others);
AxisList intersection(const AxisList& axes, const AxisList& others);

}  // namespace cleave
