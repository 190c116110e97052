#include <algorithm>
#include <utility>

#include "cleave/graph/rewrite.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/removable.h"

namespace cleave {

void remove_dead_ops(Graph& graph) {
  std::vector<uint32_t> uses(graph.num_values());
  std::vector<NodeId> order;
  graph.walk([&](NodeId id) {
    order.push_back(id);
    for (ValueId operand : graph.node(id).operands) ++uses[operand.index];
  });
  GraphRewrite rewrite(graph);
  bool any = false;
  std::vector<uint8_t> released(graph.num_nodes()), inside_dead(graph.num_nodes());
  // Each node once: one that is dead by itself may stand inside another that is.
  auto release = [&](auto&& self, NodeId id) -> void {
    if (std::exchange(released[id.index], 1)) return;
    for (ValueId operand : graph.node(id).operands) --uses[operand.index];
    for (RegionId region : graph.node(id).regions)
      for (NodeId inner : graph.region(region).nodes) self(self, inner);
  };
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = graph.node(*it);
    if (inside_dead[it->index] || !is_removable(graph, node)) continue;
    if (std::any_of(node.results.begin(), node.results.end(),
                    [&](ValueId result) { return uses[result.index] != 0; }))
      continue;
    release(release, *it);
    for (RegionId region : node.regions)
      graph.walk(region, [&](NodeId inner) { inside_dead[inner.index] = 1; });
    rewrite.erase(*it);
    any = true;
  }
  if (any) rewrite.apply();
}

}  // namespace cleave
