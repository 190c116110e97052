#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cleave/core/shard_layout.h"
#include "cleave/graph/graph.h"
#include "cleave/graph/value_map.h"

namespace cleave {

// A dense constant with one value everywhere.
Literal splat_literal(Type type, double value);
// The value that a reduction leaves out: 0 for Sum, the lowest for Max, all bits for And. Avg has
// none; zeros.
Literal identity_literal(ReduceOp op, Type type);

// One op's part on one device: compute the box of each result from the boxes of the operands. Boxes
// are in coordinates of the whole tensors, and hold true elements only; one may be short or empty.
//
//   slice [2:7] of 10 elements, device 1 of 2: the result box is [3, 5), and the operand box that
//   serves it is [5, 7); on the device the op is slice [0:2].
//
// An op whose local form differs from its whole form by more than the shapes has a hook
// (OpDef::localize) that emits local nodes through this context.
class LocalOp {
 public:
  LocalOp(const Graph& whole, const Node& node, Graph& local, RegionId region, ValueMap& map)
      : whole_(whole), node_(node), local_(local), region_(region), map_(map) {}

  std::vector<ValueId> operands;          // on this device
  std::vector<ShardSlice> operand_boxes;  // what they hold
  std::vector<ShardSlice> result_boxes;   // what is asked for
  // For operand i: whether this device counts it. Of the devices whose parts of the results are
  // combined later, only one may count an operand that enters once, such as the initial value of a
  // sum.
  std::vector<bool> counts;
  // The device's index in its whole program; the same for all devices if no op asks for it.
  int64_t device = 0;
  // The form is to be the same on all devices with shards of the same size, but for the values of
  // constants and the starts of slices. Otherwise a device leaves out what it can: the one whose
  // shard begins at 0 shifts no indices.
  bool alike = false;
  std::vector<bool> counted_by_all;  // with `alike`, for operand i: whether every device counts it

  // All results are empty here, and the op has no other effect.
  bool is_empty() const;

  const Graph& whole() const { return whole_; }
  const Node& node() const { return node_; }
  const AttrDict& attrs() const { return node_.attrs; }
  const Shape& operand_shape(size_t i) const { return whole_.operand_type(node_, i).shape; }
  const Shape& result_shape(size_t i = 0) const { return whole_.result_type(node_, i).shape; }
  // Result i with the size of its box.
  Type result_type(size_t i = 0) const;
  std::vector<Type> result_types() const;

  // Emits the op itself, regions included, with the given operands and attributes.
  std::vector<ValueId> emit_self(std::vector<ValueId> operands, AttrDict attrs);
  std::vector<ValueId> emit_self(AttrDict attrs) { return emit_self(operands, std::move(attrs)); }
  // Emits one node of one result.
  ValueId emit(std::string_view op, std::vector<ValueId> operands, Type type, AttrDict attrs = {});
  const Type& type(ValueId local) const { return local_.type(local); }

  ValueId constant(Literal literal);
  ValueId identity(ReduceOp op, Type type) {
    return constant(identity_literal(op, std::move(type)));
  }
  ValueId splat(Type type, double value);  // of any dtype with kernels; false and true for bool
  ValueId slice(ValueId value, const Shape& start,
                const Shape& size);  // itself if that is all of it
  // The part of operand i that covers `box`, which must lie inside its own box.
  ValueId operand_part(size_t i, const ShardSlice& box);
  ValueId broadcast_scalar(ValueId scalar, const Shape& shape);

 private:
  const Graph& whole_;
  const Node& node_;
  Graph& local_;
  RegionId region_;
  ValueMap& map_;
};

// Emits the local form and returns the results.
using LocalizeFn = std::vector<ValueId> (*)(LocalOp&);
// The boxes of operands that the boxes of results need. On entry `operands` are those of the
// layouts; the hook changes the dimensions along which neighbours' elements are needed. With such a
// hook an op runs sharded along its permutation factors.
using NeedsFn = void (*)(const Graph&, const Node&, std::span<const ShardSlice> results,
                         std::span<ShardSlice> operands);

}  // namespace cleave
