#pragma once

#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Which values of a region depend smoothly on some of its values: those alone have tangents. Loops
// are followed until nothing changes.
class Activity {
 public:
  Activity(const Graph& graph, RegionId region, const std::vector<ValueId>& seeds);

  bool operator()(ValueId id) const { return id.index < active_.size() && active_[id.index]; }
  // Whether a result of the node is active.
  bool any_result(const Node& node) const;

 private:
  void visit(RegionId region);
  void visit_node(const Node& node);
  void mark(ValueId id);
  void flow(ValueId from, ValueId to);
  // An op whose values pass through these regions.
  void visit_regions(const Node& node, const std::vector<RegionId>& regions);
  void enter_scan(const Node& node);
  void leave_scan(const Node& node);

  const Graph& graph_;
  std::vector<bool> active_;
  bool changed_ = false;
};

// sdy.named_computation with this name ("cleave.checkpoint").
bool is_named(const Node& node, std::string_view name);
bool stops_gradient(const Node& node);

}  // namespace cleave
