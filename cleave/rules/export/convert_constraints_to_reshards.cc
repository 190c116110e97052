#include "cleave/ops/op.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void convert_constraints_to_reshards(Graph& graph) {
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is<op::ShardingConstraint>(node)) return;
    node.def = &def_of<op::Reshard>();
  });
}

}  // namespace cleave
