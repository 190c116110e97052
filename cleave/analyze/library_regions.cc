#include <algorithm>

#include "cleave/analyze/fused_region.h"
#include "cleave/analyze/library_ops.h"

// What PyTorch makes of a region: an optimizer that is one kernel, and without a compiler ops of a
// library (library_ops.h).
namespace cleave::analyze {

// What the kernel of the updates takes, such as gradients, is in memory.
void FusedRegion::find_updates(const std::vector<bool>& is_donated) {
  updates_ = update_ops(graph_, region_, is_donated);
  for (NodeId id : nodes_) {
    if (!updates_[id.index]) continue;
    for (ValueId operand : node(id).operands) {
      const NodeId producer = graph_.value(operand).producer;
      if (producer.valid() && !updates_[producer.index] && !is_small(operand))
        forced_[behind(operand).index] = true;
    }
  }
}

bool FusedRegion::is_update(ValueId value) const {
  const NodeId producer = graph_.value(value).producer;
  return !updates_.empty() && producer.valid() && updates_[producer.index];
}

void FusedRegion::force_library_ops() {
  for (NodeId id : nodes_)
    if (roles_[id.index] == KernelRole::Inside && !is_update(node(id).results[0]))
      for (ValueId value : values_of_library_op(graph_, node(id), users_))
        if (!is_small(value)) forced_[value.index] = true;
}

std::vector<ValueId> FusedRegion::tensors_in(const KernelReads& reads) const {
  double largest = 0;
  for (const auto& [value, count] : reads) largest = std::max(largest, bytes(value));
  std::vector<ValueId> list;
  for (const auto& [value, count] : reads)
    if (counts_as_tensor(graph_, behind(value), largest)) list.push_back(value);
  return list;
}

// Whether the op returns what it computes. If it would compute from too many tensors, its operands
// are returned instead.
bool FusedRegion::ends_library_op(const Node& node, const KernelReads& mine) {
  const size_t tensors = tensors_in(mine).size();
  if (tensors > kLibraryTensors)
    for (ValueId operand : node.operands)
      if (!written_[operand.index] && tensors_in(inside_[operand.index]).size() > 1) {
        const ValueId narrow = narrowest(operand);
        forced_[narrow.index] = true;
        write(narrow, true, {});
      }
  const std::vector<NodeId>& users = users_[node.results[0].index];
  return tensors >= 2 && users.size() >= 2 &&
         std::any_of(users.begin(), users.end(),
                     [&](NodeId user) { return takes_more(user, node.results[0], mine); });
}

// Of a chain of ops on the same tensors, the value of the fewest bytes.
ValueId FusedRegion::narrowest(ValueId value) const {
  ValueId best = value;
  for (;;) {
    const std::vector<ValueId>& operands = node(graph_.value(value).producer).operands;
    const auto next = std::find_if(operands.begin(), operands.end(), [&](ValueId operand) {
      return !written_[operand.index] && inside_[operand.index].size() > 1 &&
             tensors_in(inside_[operand.index]) == tensors_in(inside_[value.index]);
    });
    if (next == operands.end()) return best;
    value = *next;
    if (bytes(value) < bytes(best)) best = value;
  }
}

// Whether a user of a value reads anything that the value was not computed from.
bool FusedRegion::takes_more(NodeId user, ValueId value, const KernelReads& known) const {
  const std::vector<ValueId>& operands = node(user).operands;
  return std::any_of(operands.begin(), operands.end(), [&](ValueId other) {
    if (other == value || is_small(other)) return false;
    if (written_[other.index]) return !known.contains(other);
    if (inside_[other.index].empty()) return true;  // not decided yet
    return std::any_of(inside_[other.index].begin(), inside_[other.index].end(),
                       [&](const auto& read) { return !known.contains(read.first); });
  });
}

}  // namespace cleave::analyze
