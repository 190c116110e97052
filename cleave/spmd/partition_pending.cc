#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"
#include "cleave/spmd/partitioner.h"
#include "cleave/spmd/planned_marks.h"

// When a pending value that several ops use is completed: at once, for all of them, or later,
// because what they make of it comes together with other pending values.
//
//   c + 2 * c - d of two pending products: one all_reduce at the end, not one for c and one for d
namespace cleave {
namespace {

// How far it looks.
constexpr int kMostOps = 64;
constexpr int kMostSources = 8;

bool carries(const Graph& graph, const Node& node, ReduceOp op, const std::vector<bool>& pending) {
  // What costs little: a convolution of pending parts is done in full on every device.
  if (!(node.def->has(kElementwise) || node.def->has(kViewLike))) return false;
  if (!node.def->partial || node.results.size() != 1) return false;
  const PartialTransfer transfer = node.def->partial(graph, node);
  return std::any_of(transfer.begin(), transfer.end(), [&](const PartialRow& row) {
    return row.in == op && row.out == op &&
           std::equal(row.operands.begin(), row.operands.end(), pending.begin(), pending.end());
  });
}

}  // namespace

bool Partitioner::is_pending_alike(ValueId source, const ShardingSpec& spec) const {
  if (versions_[source.index].empty()) return false;
  const ShardingSpec& own = spec_of(current(source));
  return own.mesh && own.is_partial() && own.partial == spec.partial &&
         own.partial_op == spec.partial_op;
}

// Follows the sources through ops that carry them. Others that are pending and meet them on the
// way become sources; false where that happened, or where it leads too far.
bool Partitioner::follow_pending(const ShardingSpec& spec, PendingPaths& paths) const {
  paths.carried = paths.sources;
  paths.completed.clear();
  std::set<NodeId> open;
  auto add_users = [&](ValueId value) {
    for (const Use& use : uses_.uses(value)) open.insert(use.node);
  };
  for (ValueId source : paths.sources) add_users(source);
  const RegionId home = source_.node(*open.begin()).parent;
  bool met = false;
  for (int ops = 0; !open.empty(); ++ops) {
    const Node& node = source_.node(*open.begin());
    open.erase(open.begin());
    if (ops == kMostOps || node.parent != home || node.attrs.has(kPlannedAttr)) {
      paths.ends = false;
      return false;
    }
    const bool returns = node.def->has(kTerminator);
    if (returns && options_.keep_results && is<op::FuncReturn>(node)) continue;
    std::vector<bool> pending;
    std::vector<ValueId> others;
    for (ValueId operand : node.operands) {
      const bool carried = paths.carried.contains(operand);
      const bool other = !carried && is_pending_alike(operand, spec);
      pending.push_back(carried || other);
      if (other) others.push_back(operand);
    }
    if (!returns && carries(source_, node, spec.partial_op, pending) &&
        !spreads_complete(node, Wanted(node.results.size()))) {
      met |= !others.empty();
      paths.sources.insert(others.begin(), others.end());
      paths.carried.insert(node.results[0]);
      add_users(node.results[0]);
    } else {
      for (ValueId operand : node.operands)
        if (paths.carried.contains(operand)) paths.completed.insert(operand);
    }
  }
  return !met;
}

bool Partitioner::completes_later(ValueId source) {
  const ShardingSpec spec = spec_of(current(source));
  if (!spec.is_partial()) return false;
  if (auto known = completed_later_.find(source); known != completed_later_.end())
    return known->second;
  PendingPaths paths;
  paths.sources = {source};
  bool done = false;
  for (int round = 0; round < kMostSources && paths.ends && !done; ++round)
    done = follow_pending(spec, paths);
  auto bytes = [&](const std::set<ValueId>& values) {
    int64_t sum = 0;
    for (ValueId value : values) sum += source_.type(value).byte_count();
    return sum;
  };
  const bool later = done && bytes(paths.completed) < bytes(paths.sources) &&
                     paths.completed.size() < paths.sources.size();
  // All that is made of them on the way stays pending too.
  if (later)
    for (ValueId value : paths.carried) completed_later_[value] = !paths.completed.contains(value);
  else
    completed_later_[source] = false;
  return later;
}

}  // namespace cleave
