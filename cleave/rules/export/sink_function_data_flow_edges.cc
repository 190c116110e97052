#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void sink_function_data_flow_edges(Graph& graph) {
  GraphRewrite rewrite(graph);
  graph.walk([&](NodeId id) {
    if (!is<op::FuncDataFlowEdge>(graph.node(id))) return;
    const ValueId operand = graph.node(id).operands[0], result = graph.node(id).results[0];
    const auto old = get_sharding(graph, operand);
    if (const auto spec = get_sharding(graph, result)) {
      set_sharding(graph, operand, *spec);
    } else if (old) {
      set_sharding(graph, operand, ShardingSpec::fully_open(old->mesh, old->rank()));
    }
    rewrite.replace_uses(result, operand);
    rewrite.erase(id);
  });
  rewrite.apply();
}

}  // namespace cleave
