#include "cleave/ops/collective/family.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"

// What the partitioner puts between ops. These exist in partitioned programs only, and their
// meaning is in the layouts of operand and result: cleave.halo gives devices elements of their
// neighbours, and cleave.transfer is one device's part in any change of layout. cleave.enter_manual
// and cleave.leave_manual are the borders of what was a manual computation: a whole value and the
// part of it that a device has under the manual axes. On a device both are the same array.
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
  for (const char* name : {"cleave.enter_manual", "cleave.leave_manual"})
    registry.add({.name = name, .infer = infer_declared});
}

}  // namespace cleave
