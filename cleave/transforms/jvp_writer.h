#pragma once

#include <vector>

#include "cleave/transforms/activity.h"
#include "cleave/transforms/region_copy.h"

namespace cleave {

// Writes values and tangents of a prepared region, node by node.
class JvpWriter {
 public:
  JvpWriter(Graph& graph, const Activity& active) : graph_(graph), active_(active) {}

  ValueTable primal, tangent;  // by value of the region that is read

  void run(RegionId source, RegionId target);  // all nodes but the terminator
  // The tangent of an active value, zeros if nothing came.
  ValueId tangent_or_zeros(ValueId source, RegionId target);

 private:
  void write(NodeId id, RegionId target);
  void write_by_rule(NodeId id, const Node& node, RegionId target);
  void write_while(const Node& node, RegionId target);
  void write_branches(const Node& node, RegionId target);
  void write_scan(const Node& node, RegionId target);
  void write_manual(const Node& node, RegionId target);
  void add_args(const std::vector<ValueId>& args, RegionId region, bool tangents);
  void bind_results(const Node& node, const std::vector<ValueId>& values, size_t plain);
  // Values, then tangents of the active ones among `active`.
  std::vector<ValueId> with_tangents(const std::vector<ValueId>& values,
                                     const std::vector<ValueId>& active, RegionId target);
  std::vector<Type> with_tangent_types(const std::vector<ValueId>& values) const;

  Graph& graph_;
  const Activity& active_;
};

// "stablehlo.foo: has no forward derivative ...", with types and the ways out.
[[noreturn]] void throw_no_rule(const Graph& graph, const Node& node, std::string_view which);

}  // namespace cleave
