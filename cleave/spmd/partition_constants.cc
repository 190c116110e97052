#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/spmd/partitioner.h"

// What is computed from constants alone is not sent between devices: a device that needs more of it
// computes it once more.
namespace cleave {
namespace {

// Chains of this many ops at most, so that little is computed twice.
constexpr int kLongestRemake = 8;

}  // namespace

bool Partitioner::is_remade(ValueId source, int depth) const {
  const NodeId producer = source_.value(source).producer;
  if (!producer.valid() || depth > kLongestRemake) return false;
  const Node& node = source_.node(producer);
  if (node.results.size() != 1 || !node.regions.empty()) return false;
  if (!source_.type(source).is_tensor() || !source_.type(source).has_static_shape()) return false;
  if (node.def->has(kConstantLike)) return node.operands.empty() && node.def->localize;
  if (!node.def->has(kElementwise) && !node.def->has(kViewLike)) return false;
  if (!node.def->has(kPure) || node.operands.empty() || node.def->needs) return false;
  return std::all_of(node.operands.begin(), node.operands.end(),
                     [&](ValueId operand) { return is_remade(operand, depth + 1); });
}

std::optional<ValueId> Partitioner::remake(ValueId source, const ShardingSpec& spec,
                                           RegionId target) {
  if (spec.is_partial() || !is_remade(source)) return std::nullopt;
  const NodeId producer = source_.value(source).producer;
  const Node& node = source_.node(producer);
  const Wanted wanted = {spec};
  const std::vector<ShardingSpec> nothing(node.operands.size());
  const OpPartition how =
      partition_op(source_, node, rules_.of(producer), program_.mesh, nothing, wanted);
  if (!how.results[0].same_layout(spec)) return std::nullopt;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.operands.size(); ++i)
    operands.push_back(use(node.operands[i], how.operands[i], target));
  const NodeId id = emit(node, std::move(operands), how.results, target);
  return program_.graph.node(id).results[0];
}

}  // namespace cleave
