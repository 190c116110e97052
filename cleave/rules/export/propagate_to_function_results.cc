#include "cleave/graph/value_sharding.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void propagate_to_function_results(Graph& graph) {
  const int main = main_function(graph);
  for (size_t f = 0; f < graph.functions.size(); ++f) {
    Function& function = graph.functions[f];
    if (static_cast<int>(f) == main || !function.body.valid()) continue;
    const Node& terminator = graph.node(graph.terminator(function.body));
    for (size_t i = 0; i < terminator.operands.size(); ++i) {
      if (const auto spec = get_sharding(graph, terminator.operands[i])) {
        function.result_attrs[i].set(kShardingAttr, ShardingAttr{*spec});
      } else {
        function.result_attrs[i].erase(kShardingAttr);
      }
    }
  }
}

}  // namespace cleave
