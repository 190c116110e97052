#include <utility>

#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {

void add_data_flow_edges(Graph& graph, bool (*wanted)(const Node&)) {
  GraphRewrite rewrite(graph);
  auto add = [&](ValueId owner, NodeId op, bool at_start) {
    if (!(graph.type(owner).is_tensor() && graph.type(owner).has_static_shape())) return;
    AttrDict attrs;
    if (auto spec = get_sharding(graph, owner)) attrs.set("sharding", ShardingAttr{*spec});
    const NodeId edge =
        graph.add_node("sdy.data_flow_edge", {owner}, {graph.type(owner)}, std::move(attrs));
    if (at_start) {
      rewrite.insert_at_start(graph.node(op).regions[0], edge);
    } else {
      rewrite.insert_after(op, edge);
    }
    rewrite.replace_uses(owner, graph.node(edge).results[0], edge);
  };
  graph.walk([&](NodeId id) {
    if (!wanted(graph.node(id))) return;
    for (ValueId owner : argument_owners(graph, graph.node(id))) add(owner, id, true);
    for (ValueId owner : result_owners(graph, graph.node(id))) add(owner, id, false);
  });
  rewrite.apply();
}

}  // namespace cleave
