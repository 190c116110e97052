#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/core/sharding.h"

namespace cleave {

// The axes of one dimension, by name: "data", {"x", "y"} (major to minor), "x:(1)2" (a part of an
// axis), or {}, nullptr or nullopt for none. `open` and `priority` say more about it.
struct SpecEntry {
  std::vector<std::string> axes;
  bool is_open = false;
  std::optional<int64_t> importance;  // the priority; lower comes first, and none is 0

  SpecEntry() = default;
  SpecEntry(std::nullopt_t) {}
  SpecEntry(const char* axis) {
    if (axis) axes.emplace_back(axis);
  }
  SpecEntry(std::string axis) : axes{std::move(axis)} {}
  SpecEntry(std::initializer_list<const char*> list) {
    for (const char* axis : list)
      if (axis) axes.emplace_back(axis);
  }
  SpecEntry(std::vector<std::string> list) : axes(std::move(list)) {}
  bool operator==(const SpecEntry&) const = default;
};

// A dimension that propagation may split further: open("data") is {"data", ?}, open() is {?}.
inline SpecEntry open(SpecEntry entry = {}) {
  entry.is_open = true;
  return entry;
}
// A dimension that gives way to those of a lower number: priority("x", 1) is {"x"}p1,
// priority(open("x"), 2) is {"x", ?}p2.
inline SpecEntry priority(SpecEntry entry, int64_t number) {
  entry.importance = number;
  return entry;
}

// How a tensor is to be laid out, without a mesh: an entry per dimension, axes that are to stay
// replicated, and axes along which a reduction is pending. Dimensions beyond the entries are not
// sharded.
//
//   P("data", {})                         [{"data"}, {}]                       rows over data
//   P({}, {"x", "y"})                     [{}, {"x", "y"}]                     columns over x, then
//   y P(open("data"), {})                   [{"data", ?}, {}]                    rows, and more of
//   them P(priority("x", 1), {})               [{"x"}p1, {}]                        if nothing else
//   wants x P("data").replicated("model")         [{"data"}], replicated={"model"}     never over
//   model P("data").unreduced("model")          [{"data"}], unreduced={"model"}      a sum pending
//
// If the operands of an op disagree, what they say counts in this order: axes that one of them
// holds explicitly replicated are taken by no result; then lower priorities; then what splits the
// work into more parts; and of the rest as much as fits, from the major axis on.
struct PartitionSpec {
  std::vector<SpecEntry> entries;
  std::vector<std::string> partial;
  ReduceOp partial_op = ReduceOp::Sum;
  std::vector<std::string> whole = {};  // the axes of `replicated`

  PartitionSpec unreduced(SpecEntry axes, ReduceOp op = ReduceOp::Sum) const {
    PartitionSpec spec = *this;
    spec.partial = std::move(axes.axes);
    spec.partial_op = op;
    return spec;
  }
  PartitionSpec replicated(SpecEntry axes) const {
    PartitionSpec spec = *this;
    spec.whole = std::move(axes.axes);
    return spec;
  }
  bool operator==(const PartitionSpec& other) const = default;
};

// An entry for each dimension, of any number. After the eighth, {} has to be written as nullopt.
inline PartitionSpec P() { return {}; }
inline PartitionSpec P(SpecEntry a) { return {{std::move(a)}, {}}; }
inline PartitionSpec P(SpecEntry a, SpecEntry b) { return {{std::move(a), std::move(b)}, {}}; }
inline PartitionSpec P(SpecEntry a, SpecEntry b, SpecEntry c) {
  return {{std::move(a), std::move(b), std::move(c)}, {}};
}
inline PartitionSpec P(SpecEntry a, SpecEntry b, SpecEntry c, SpecEntry d) {
  return {{std::move(a), std::move(b), std::move(c), std::move(d)}, {}};
}
inline PartitionSpec P(SpecEntry a, SpecEntry b, SpecEntry c, SpecEntry d, SpecEntry e) {
  return {{std::move(a), std::move(b), std::move(c), std::move(d), std::move(e)}, {}};
}
inline PartitionSpec P(SpecEntry a, SpecEntry b, SpecEntry c, SpecEntry d, SpecEntry e,
                       SpecEntry f) {
  return {{std::move(a), std::move(b), std::move(c), std::move(d), std::move(e), std::move(f)}, {}};
}
inline PartitionSpec P(SpecEntry a, SpecEntry b, SpecEntry c, SpecEntry d, SpecEntry e, SpecEntry f,
                       SpecEntry g) {
  PartitionSpec spec = P(std::move(a), std::move(b), std::move(c), std::move(d), std::move(e));
  spec.entries.insert(spec.entries.end(), {std::move(f), std::move(g)});
  return spec;
}
template <std::convertible_to<SpecEntry>... More>
PartitionSpec P(SpecEntry a, SpecEntry b, SpecEntry c, SpecEntry d, SpecEntry e, SpecEntry f,
                SpecEntry g, SpecEntry h, More&&... more) {
  PartitionSpec spec = P(std::move(a), std::move(b), std::move(c), std::move(d), std::move(e),
                         std::move(f), std::move(g));
  spec.entries.push_back(std::move(h));
  (spec.entries.push_back(std::forward<More>(more)), ...);
  return spec;
}

// As Shardy writes it, the part after the mesh, and back:
//   [{"x", ?}p1, {"y":(1)2}], replicated={"z"}, unreduced={"w"}
std::string to_string(const PartitionSpec& spec);
PartitionSpec parse_partition_spec(std::string_view text);

// The spec on a mesh for a tensor of a shape. Throws UserError that names the axis or dimension
// that does not fit.
ShardingSpec to_sharding(const PartitionSpec& spec, const MeshPtr& mesh, const Shape& shape);

// The shape of the whole tensor from the shapes of its shards: the inverse of `shard_slice`
// (core/shard_layout.h). Each throws UserError that names the dimension and the device that do not
// fit.

// From the shards of all devices, in the order of the mesh's positions. Shards may be uneven.
//   [{"x"}] on x=4 with <3>, <3>, <3>, <0>   ->   9
//   [{"x"}] on x=4 with <3>, <2>, <3>, <1>   ->   an error: no size is cut like that
Shape compute_global_shape(std::span<const Shape> locals, const ShardingSpec& spec);

// If every device has a shard of this shape. The shard of one device alone does not say it: 2 rows
// on the first of four devices may be a part of 5, 6, 7 or 8.
//   [{"x"}, {"y"}] on x=2, y=4 with <3x5>   ->   6x20
Shape compute_global_shape(const Shape& local, const ShardingSpec& spec);
// The same by names of axes.
Shape compute_global_shape(std::span<const Shape> locals, const Mesh& mesh,
                           const PartitionSpec& spec);
Shape compute_global_shape(const Shape& local, const Mesh& mesh, const PartitionSpec& spec);

// One object for every mesh of the same contents. A mesh without a name is called "mesh".
MeshPtr shared_mesh(const Mesh& mesh);

}  // namespace cleave
