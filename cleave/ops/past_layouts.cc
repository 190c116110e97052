#include "cleave/ops/past_layouts.h"

#include "cleave/rules/value_sharding.h"

namespace cleave {

ValueId past_layouts(const Graph& graph, ValueId value) {
  while (true) {
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid()) return value;
    const Node& node = graph.node(producer);
    if (node.operands.size() != 1 || own_sharding_attr(node) != "sharding") return value;
    value = node.operands[0];
  }
}

}  // namespace cleave
