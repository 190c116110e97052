#include <algorithm>
#include <unordered_map>

#include "cleave/graph/rewrite.h"
#include "cleave/ops/op.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {
namespace {

// A scalar in every place of a tensor.
bool is_scalar_expansion(const Graph& graph, const Node& node) {
  return is<op::BroadcastInDim>(node) && graph.operand_type(node, 0).is_tensor() &&
         graph.operand_type(node, 0).rank() == 0;
}

}  // namespace

void merge_constants(Graph& graph) {
  GraphRewrite rewrite(graph);
  std::vector<ValueId> merged(graph.num_values());  // what took the place of a value
  auto merge_region = [&](auto&& self, RegionId region) -> void {
    std::unordered_map<std::string, std::vector<NodeId>> by_type;
    for (NodeId id : graph.region(region).nodes) {
      const Node& node = graph.node(id);
      for (RegionId inner : node.regions) self(self, inner);
      const bool constant = is<op::SdyConstant, op::Constant>(node);
      if (!constant && !is_scalar_expansion(graph, node)) continue;
      std::string key = node.name() + to_string(graph.type(node.results[0]));
      if (!constant) {
        const ValueId scalar = node.operands[0], first = merged[scalar.index];
        key += '%' + std::to_string(first.valid() ? first.index : scalar.index);
      }
      std::vector<NodeId>& same = by_type[key];
      auto it = std::find_if(same.begin(), same.end(),
                             [&](NodeId other) { return graph.node(other).attrs == node.attrs; });
      if (it == same.end()) {
        same.push_back(id);
      } else {
        merged[node.results[0].index] = graph.node(*it).results[0];
        rewrite.replace_uses(node.results[0], graph.node(*it).results[0]);
        rewrite.erase(id);
      }
    }
  };
  for (const Function& function : graph.functions)
    if (function.body.valid()) merge_region(merge_region, function.body);
  rewrite.apply();
}

}  // namespace cleave
