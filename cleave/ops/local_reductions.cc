#include "cleave/ops/local_forms.h"
#include "cleave/ops/reducer.h"

namespace cleave {
namespace {

// Replaces operands in [first, first + count) by the identity of the op's reducer on devices that
// must not count them.
void drop_uncounted(LocalOp& op, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    if (op.counts[i]) continue;
    const auto reducer = common_reducer(op.whole(), op.node().regions[0], false);
    if (reducer && *reducer != ReduceOp::Avg)
      op.operands[i] = op.identity(*reducer, op.type(op.operands[i]));
  }
}

// An initial value enters once, not once per shard.
std::vector<ValueId> local_reduce(LocalOp& op) {
  const size_t n = op.operands.size() / 2;
  drop_uncounted(op, n, n);
  return op.emit_self(op.attrs());
}

// Updates are spread over devices: the operand itself counts on one of them.
std::vector<ValueId> local_scatter(LocalOp& op) {
  drop_uncounted(op, 0, (op.operands.size() - 1) / 2);
  return op.emit_self(op.attrs());
}

}  // namespace

void add_local_reduction_forms(OpRegistry& registry) {
  registry.extend("stablehlo.reduce", [](OpDef& def) { def.localize = local_reduce; });
  registry.extend("stablehlo.scatter", [](OpDef& def) { def.localize = local_scatter; });
}

}  // namespace cleave
