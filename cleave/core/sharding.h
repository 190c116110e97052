#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/axis.h"
#include "cleave/core/mesh.h"
#include "cleave/core/shape.h"

namespace cleave {

class TextCursor;

enum class ReduceOp : uint8_t { Sum, Max, Min, Prod, And, Or, Avg };
std::string_view name(ReduceOp op);  // "sum", "max", ...
std::optional<ReduceOp> reduce_op_from_name(std::string_view name);

// How one dimension of a tensor is split.  {"x", "y"}: over x, then y, and closed;  {"x", ?}: open,
// so that propagation may shard it further;  {"x"}p1: with priority 1 (lower is more important;
// none is 0).
struct DimSpec {
  AxisList axes;  // major to minor
  bool open = false;
  std::optional<int64_t> priority;
  bool operator==(const DimSpec&) const = default;
};

// How a tensor is laid out over a mesh. An axis that appears nowhere is replicated, and propagation
// may still use it if a dimension is open; one in `replicated` is fixed as such; along one in
// `partial` every device holds a part, and the value is the reduction of the parts with
// `partial_op`.
//
//   #sdy.sharding<@mesh, [{"x"}, {?}, {}p1], replicated={"z"}, unreduced={"w"}>
//   #sdy.sharding<@mesh, [{"x"}], unreduced=max{"w"}>
struct ShardingSpec {
  MeshPtr mesh;
  std::vector<DimSpec> dims;
  AxisList replicated;  // in mesh order
  AxisList partial;     // in mesh order
  ReduceOp partial_op = ReduceOp::Sum;

  static ShardingSpec closed_replicated(MeshPtr mesh, size_t rank);  // [{}, {}]
  static ShardingSpec fully_open(MeshPtr mesh, size_t rank);         // [{?}, {?}]

  size_t rank() const { return dims.size(); }
  bool is_fully_replicated() const;  // no dimension is sharded and nothing is partial
  bool is_partial() const { return !partial.empty(); }
  // Same mesh contents and the same placement of elements: openness and priorities do not count.
  bool same_layout(const ShardingSpec& other) const;
  bool operator==(
      const ShardingSpec& other) const;  // everything, mesh compared by contents and name
};

// Throws UserError that says which invariant does not hold: axes exist, sub-axes fit, no axis or
// overlapping sub-axis twice, neighbours that could merge are merged, replicated and partial in
// mesh order, no priority on an empty closed dimension, priorities >= 0.
void verify(const ShardingSpec& spec);
// Also against a tensor's shape: as many dimensions, no sharded dimension of size 0.
void verify(const ShardingSpec& spec, const Shape& shape);

// `[{"x"}, {?}], replicated={"z"}`: the part after the mesh.
std::string to_string(const ShardingSpec& spec);
// `<@mesh, [{"x"}, {?}]>`, with the mesh inline if it has no name.
std::string to_string_with_mesh(const ShardingSpec& spec);

// Finds the mesh of a symbol; returns null if there is none.
using MeshLookup = std::function<MeshPtr(std::string_view)>;

// Reads the part after the mesh. Verifies.  '[{"x"}, {"y":(1)2, ?}p1], unreduced={"w"}'
ShardingSpec parse_sharding(std::string_view text, const MeshPtr& mesh);
// At a cursor, without verification: the part after the mesh, and the whole `<@mesh, [...]>`.
ShardingSpec parse_sharding_dims(TextCursor& cursor, const MeshPtr& mesh);
ShardingSpec parse_sharding_body(TextCursor& cursor, const MeshLookup& lookup);
// `"x":(1)2`
AxisRef parse_axis_ref(TextCursor& cursor, const Mesh& mesh);
// `{"x", "y":(1)2}`
AxisList parse_axis_list(TextCursor& cursor, const Mesh& mesh);

}  // namespace cleave
