#include "cleave/graph/rewrite.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/sharding_groups.h"

namespace cleave {

void remove_sharding_groups(Graph& graph) {
  GraphRewrite rewrite(graph);
  const std::vector<NodeId> nodes = sharding_group_nodes(graph);
  if (nodes.empty()) return;
  for (NodeId id : nodes) rewrite.erase(id);
  rewrite.apply();
}

}  // namespace cleave
