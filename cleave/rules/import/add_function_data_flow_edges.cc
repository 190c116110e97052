#include <utility>

#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {

void add_function_data_flow_edges(Graph& graph) {
  const int main = main_function(graph);
  GraphRewrite rewrite(graph);
  auto make_edge = [&](ValueId value) {
    AttrDict attrs;
    if (const auto spec = get_sharding(graph, value))
      attrs.set(kShardingAttr, ShardingsAttr{{*spec}});
    const Type type = graph.type(value);
    const NodeId edge =
        graph.add_node("sdy.func_data_flow_edge", {value}, {type}, std::move(attrs));
    rewrite.replace_uses(value, graph.node(edge).results[0], edge);
    return edge;
  };
  auto is_static = [&](ValueId value) {
    return graph.type(value).is_tensor() && graph.type(value).has_static_shape();
  };
  for (size_t f = 0; f < graph.functions.size(); ++f) {
    if (static_cast<int>(f) == main || !graph.functions[f].body.valid()) continue;
    const RegionId body = graph.functions[f].body;
    const std::vector<ValueId> args = graph.region(body).args;
    for (ValueId arg : args)
      if (is_static(arg)) rewrite.insert_at_start(body, make_edge(arg));
  }
  graph.walk([&](NodeId id) {
    if (!is<op::Call>(graph.node(id))) return;
    const std::vector<ValueId> results = graph.node(id).results;
    for (ValueId result : results)
      if (is_static(result)) rewrite.insert_after(id, make_edge(result));
  });
  rewrite.apply();
}

}  // namespace cleave
