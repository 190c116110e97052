#include <utility>

#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void sink_data_flow_edges(Graph& graph) {
  std::vector<NodeId> edge_of(graph.num_values());
  std::vector<NodeId> edges;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (!is<op::DataFlowEdge>(node)) return;
    edges.push_back(id);
    edge_of[node.operands[0].index] = id;
  });
  if (edges.empty()) return;
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is_data_flow_op(node)) return;
    std::vector<ShardingSpec> specs = edge_shardings(graph, argument_owners(graph, node), edge_of);
    if (!specs.empty()) {
      if (is<op::ManualComputation>(node)) {
        std::vector<ShardingSpec> outer = get_shardings(node, "in_shardings");
        for (size_t i = 0; i < specs.size(); ++i)
          specs[i] = with_manual_axes(outer[i], specs[i], node);
      }
      set_shardings(node, "in_shardings", std::move(specs));
    }
    specs = edge_shardings(graph, result_owners(graph, node), edge_of);
    if (!specs.empty())
      set_shardings(
          node,
          has_region_arguments_as_owners(node) ? std::string_view("out_shardings") : kShardingAttr,
          std::move(specs));
  });
  GraphRewrite rewrite(graph);
  for (NodeId edge : edges) {
    rewrite.replace_uses(graph.node(edge).results[0], graph.node(edge).operands[0]);
    rewrite.erase(edge);
  }
  rewrite.apply();
}

}  // namespace cleave
