#include <utility>

#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/call_graph.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {

void propagate_shardings_from_functions_to_calls(Graph& graph) {
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is<op::Call>(node) || node.attrs.has(kShardingAttr)) return;
    const Function& callee = graph.functions[function_called(graph, node)];
    auto specs = shardings_of(callee.result_attrs, callee.result_types);
    if (!specs.empty()) set_shardings(node, kShardingAttr, std::move(specs));
  });
}

}  // namespace cleave
