#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/rules/propagate/populate_sharding_rules.h"

namespace cleave {

std::vector<std::string> populate_sharding_rules(Graph& graph, bool conservative) {
  std::vector<std::string> messages;
  std::set<std::string> unknown;
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (const auto rule = op_rule(graph, node, conservative).propagation) {
      if (!node.attrs.has(kShardingRuleAttr))
        node.attrs.set(kShardingRuleAttr, ShardingRuleAttr{rule});
    } else if (node.def->opaque && !node.name().ends_with(".return") &&
               unknown.insert(node.name()).second) {
      messages.push_back(fmt::format("op '{}' has no sharding rule", node.name()));
    }
  });
  return messages;
}

}  // namespace cleave
