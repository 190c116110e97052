#pragma once

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/graph/graph.h"
#include "cleave/ops/collective/process_groups.h"

namespace cleave {

// Which mesh axes a value of a manual computation may differ along, worked out in one walk over the
// body:
//
//   x: [{"data"}, {}]            data
//   axis_index("model")          model
//   x * axis_index("model")      data, model
//   all_reduce(x, "data")        none
//   while (..) h = all_reduce(h + x)   what h has at the start, and what its body adds
//
// A loop is followed until nothing changes; a branch that devices choose differently, or a loop
// that they leave at different times, differs along what their choice depends on.
class Variation {
 public:
  using Axes = std::set<int>;

  Variation(const Graph& graph, const Mesh& mesh) : graph_(graph), mesh_(mesh) {}

  void set(ValueId value, Axes axes) { axes_[value] = std::move(axes); }
  const Axes& of(ValueId value) { return axes_[value]; }
  void run(RegionId region);

 private:
  using Groups = std::vector<std::vector<int64_t>>;  // devices

  void visit(const Node& node);
  void visit_loop(const Node& node);
  void visit_scan(const Node& node);
  void visit_branches(const Node& node);
  void visit_inside(const Node& node);
  // What ops that know of devices do to the axes of their operands.
  void add_all(const Node& node, Axes& axes) const;
  void drop_spanned(const Node& node, Axes& axes) const;
  void add_scattered(const Node& node, Axes& axes) const;
  void add_exchanged(const Node& node, Axes& axes) const;
  void add_permuted(const Node& node, Axes& axes) const;
  // What a region returns, given what its arguments differ along.
  std::vector<Axes> returned(RegionId region, const std::vector<Axes>& args);
  std::vector<Axes> all_of(const std::vector<ValueId>& values);

  Axes all_axes() const;
  Groups groups_of(const Node& node, GroupMode mode) const;
  // The axes that every group spans whole, and those along which some group has several devices.
  Axes spanned(const Groups& groups) const;
  Axes touched(const Groups& groups) const;
  // Whether the moves are the same at all places along the axis, and none goes along it.
  bool same_along(const std::vector<std::pair<int64_t, int64_t>>& moves, int axis) const;

  const Graph& graph_;
  const Mesh& mesh_;
  std::map<ValueId, Axes> axes_;
};

}  // namespace cleave
