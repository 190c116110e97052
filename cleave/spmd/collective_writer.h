#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cleave/spmd/own_values.h"
#include "cleave/spmd/transfer.h"

namespace cleave {

// Writes changes of layout as StableHLO's collectives into a program that is the same for all
// devices. Values have the shape of the largest shard; a short shard fills its leading corner, and
// nothing is said about the rest.
//
//   [{"x"}, {}] -> [{}, {}], 7x4 over x=2: all_gather of 4x4, which gives 8x4; its first 7 rows
//
// A step along several dimensions is one collective, as it is in the plan: the devices' parts lie
// along a dimension of their own while they travel, and are put in order by a transpose.
class CollectiveWriter {
 public:
  // Channels are numbered from `first_channel` on.
  CollectiveWriter(OwnValues& own, int64_t first_channel) : own_(own), channel_(first_channel) {}

  // `step` is the name of a StepKind (reshard.h), or "halo". `whole` is the type of the whole
  // tensor.
  ValueId write(std::string_view step, const Layout& before, const Layout& after, const Type& whole,
                ValueId value);

 private:
  // What a step does along one dimension.
  struct Move {
    size_t dim;         // whose elements are gathered, or cut if there is no target
    AxisList axes;      // that leave the dimension, or are added to it
    size_t target = 0;  // all_to_all: the dimension that is cut instead
  };

  ValueId all_gather(const std::vector<Move>& moves, ValueId value);
  ValueId reduce_scatter(const std::vector<Move>& moves, ReduceOp op, ValueId value);
  ValueId all_to_all(const std::vector<Move>& moves, ValueId value);
  ValueId all_reduce(const AxisList& axes, ReduceOp op, ValueId value);
  ValueId permute(const std::vector<int64_t>& sources, ValueId value);
  ValueId to_partial(const Layout& before, const Layout& after, const Type& whole, ValueId value);
  ValueId exchange(const Layout& before, const Layout& after, const Type& whole, ValueId value);
  ValueId slice(const Layout& before, const Layout& after, const Type& whole, ValueId value);

  ValueId collective(std::string_view op, ValueId value, Shape shape, AttrDict attrs,
                     std::optional<ReduceOp> reduce = std::nullopt);
  AttrDict groups(const AxisList& axes, bool global_ids);
  ValueId average(ValueId sum, int64_t count);
  // {.., g * s, ..} -> {g.., .., s, ..}, the groups of all moves in front as one dimension; and
  // back along other dimensions.
  ValueId split_off(const std::vector<Move>& moves, bool at_target, ValueId value);
  ValueId join_in(const std::vector<Move>& moves, ValueId value);
  // Where the boxes of devices begin, or how large they are, by dimension.
  std::vector<ByDevice> by_device(const Layout& layout, const Shape& shape,
                                  Shape ShardSlice::*part) const;
  std::vector<ByDevice> offsets(const Layout& layout, const Shape& shape) const {
    return by_device(layout, shape, &ShardSlice::offset);
  }
  std::vector<ByDevice> sizes(const Layout& layout, const Shape& shape) const {
    return by_device(layout, shape, &ShardSlice::size);
  }

  OwnValues& own_;
  const Mesh* mesh_ = nullptr;
  int64_t channel_;
};

// The largest box of any device, by dimension.
Shape padded_shape(const Layout& layout, const Shape& whole, int64_t devices);

}  // namespace cleave
