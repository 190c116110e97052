#include "cleave/ops/collective/family.h"
#include "cleave/ops/eval.h"

// What the partitioner puts between ops. Both exist in partitioned programs only, and their meaning
// is in the layouts of operand and result: cleave.halo gives devices elements of their neighbours,
// and cleave.transfer is one device's part in any change of layout.
namespace cleave {
namespace {

std::vector<Array> eval_transfer(EvalContext& context, const Node& node,
                                 std::span<const Array> args) {
  return {context.transfer(node, args[0])};
}

}  // namespace

void register_transfer_ops(OpRegistry& registry) {
  for (const char* name : {"cleave.halo", "cleave.transfer"})
    registry.add({.name = name, .traits = kCollective, .eval = eval_transfer});
}

}  // namespace cleave
