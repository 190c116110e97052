#include "cleave/graph/value_sharding.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void drop_sharding_rules(Graph& graph) {
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    const Attribute* attr = node.attrs.find(kShardingRuleAttr);
    const auto* rule = attr ? attr->as<ShardingRuleAttr>() : nullptr;
    if (rule && !rule->rule->is_custom) node.attrs.erase(kShardingRuleAttr);
  });
}

}  // namespace cleave
