#include "cleave/ops/elementwise/family.h"
#include "cleave/ops/expansions.h"

namespace cleave {
namespace {

// One predicate for all elements: of programs, which fuse the broadcast; derivatives have a rule.
std::vector<ValueId> expand_select(GraphBuilder& b, const Node& node,
                                   std::span<const ValueId> operands, ExpandUse) {
  const Shape shape = b.shape(node.results[0]);
  if (!b.shape(operands[0]).empty() || shape.empty()) return {};
  const ValueId everywhere = b.broadcast(operands[0], shape, {});
  return {b.emit("stablehlo.select", {everywhere, operands[1], operands[2]})};
}

}  // namespace

void add_elementwise_expansions(OpRegistry& r) {
  set_expansion(r, "stablehlo.select", expand_select, kInPrograms);
}

}  // namespace cleave
