#include "cleave/rules/removable.h"

#include "cleave/ops/op.h"

namespace cleave {

bool is_terminator(const Node& node) {
  return node.def->has(kTerminator) || node.name().ends_with(".return");
}

bool is_removable(const Graph& graph, const Node& node) {
  if (is_terminator(node) || node.results.empty()) return false;
  if (flow_of(node) == Flow::Barrier) return true;
  if (is<op::CustomCall>(node)) return !node.attrs.get_bool("has_side_effect", false);
  if (!node.regions.empty()) {
    if (node.def->opaque) return false;
    for (RegionId region : node.regions)
      for (NodeId inner : graph.region(region).nodes)
        if (!is_terminator(graph.node(inner)) && !is_removable(graph, graph.node(inner)))
          return false;
    return true;
  }
  return node.def->has(kPure);
}

}  // namespace cleave
