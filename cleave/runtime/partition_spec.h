#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/core/sharding.h"

namespace cleave {

// The axes of one dimension, by name: "data", {"x", "y"} (major to minor), "x:(1)2" (a part of an
// axis), or {} or nullptr for none.
struct SpecEntry {
  std::vector<std::string> axes;

  SpecEntry() = default;
  SpecEntry(const char* axis) {
    if (axis) axes.emplace_back(axis);
  }
  SpecEntry(std::string axis) : axes{std::move(axis)} {}
  SpecEntry(std::initializer_list<const char*> list) {
    for (const char* axis : list)
      if (axis) axes.emplace_back(axis);
  }
  SpecEntry(std::vector<std::string> list) : axes(std::move(list)) {}
};

// How a tensor is to be laid out, without a mesh: an entry per dimension, and axes along which a
// reduction is pending. Dimensions beyond the entries are not sharded.
//
//   P("data", {})                      rows over data
//   P({}, {"x", "y"})                  columns over x, then y
//   P("data").unreduced({"model"})     rows over data, a sum pending over model
struct PartitionSpec {
  std::vector<SpecEntry> entries;
  std::vector<std::string> partial;
  ReduceOp partial_op = ReduceOp::Sum;

  PartitionSpec unreduced(SpecEntry axes, ReduceOp op = ReduceOp::Sum) const {
    PartitionSpec spec = *this;
    spec.partial = std::move(axes.axes);
    spec.partial_op = op;
    return spec;
  }
};

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

// The spec on a mesh for a tensor of a shape. Throws UserError that names the axis or dimension
// that does not fit.
ShardingSpec to_sharding(const PartitionSpec& spec, const MeshPtr& mesh, const Shape& shape);

// One object for every mesh of the same contents. A mesh without a name is called "mesh".
MeshPtr shared_mesh(const Mesh& mesh);

}  // namespace cleave
