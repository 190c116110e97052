#include <set>
#include <utility>

#include "cleave/graph/flow.h"
#include "cleave/rules/call_graph.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {

void flatten_call_graph(Graph& graph) {
  FreshNames names(graph);
  std::set<std::string> called;
  const std::vector<NodeId> calls = calls_in_post_order(graph);
  for (NodeId call : calls) {
    const std::string callee(callee_name(graph.node(call)));
    if (called.insert(callee).second) continue;
    std::string name = clone_function(graph, function_named(graph, callee), names);
    set_callee(graph.node(call), std::move(name));
  }
}

}  // namespace cleave
