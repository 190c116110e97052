#include <utility>

#include "cleave/rules/call_graph.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {

void order_functions_by_calls(Graph& graph) {
  const std::vector<int> order = call_graph_post_order(graph);
  std::vector<Function> functions;
  for (auto it = order.rbegin(); it != order.rend(); ++it)
    functions.push_back(std::move(graph.functions[*it]));
  graph.functions = std::move(functions);
}

}  // namespace cleave
