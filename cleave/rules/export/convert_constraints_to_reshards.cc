#include "cleave/ops/op.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void convert_constraints_to_reshards(Graph& graph) {
  const OpDef* reshard = find_op("sdy.reshard");
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is<op::ShardingConstraint>(node)) return;
    node.name = "sdy.reshard";
    node.def = reshard;
  });
}

}  // namespace cleave
