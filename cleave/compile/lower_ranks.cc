#include <fmt/format.h>

#include <utility>

#include "cleave/compile/lowering.h"
#include "cleave/compile/rank_steps.h"

namespace cleave {

// Started here; what needs the result waits for it, at once unless the node says otherwise.
void Lowering::rank_transfer(NodeId id, const CodeView& in, CodeBlock& block) {
  const Node& node = graph().node(id);
  auto transfer = std::make_shared<RankTransfer>(
      *options_.ranks, options_.device, code_.origin[id.index].index, in.type.dtype,
      fmt::format("{} {} for {}", node.attrs.get_string("cleave.step"),
                  node.attrs.get_string("cleave.axes"), node.attrs.get_string("cleave.for")));
  const CodeView out = fresh(graph().result_type(node));
  const CodeView staging =
      fresh(Type::tensor(DType::U8, {static_cast<int64_t>(transfer->staging_bytes())}));
  code_.rank_transfers.emplace_back(code_.origin[id.index].index, transfer);
  ++code_.stats.transfers;
  views_[node.results[0].index] = out;
  add(block, std::make_unique<RankStartStep>(transfer, in, staging, out), {in}, {staging, out});
  waits_.push_back({&block, id, transfer, in, staging, out});
  if (!node.attrs.has("cleave.overlap") || transfer->is_alone()) wait_for(out.buffer);
}

void Lowering::wait_for(uint32_t buffer) {
  for (size_t i = 0; i < waits_.size(); ++i) {
    if (waits_[i].out.buffer != buffer) continue;
    const PendingWait pending = waits_[i];
    waits_.erase(waits_.begin() + static_cast<std::ptrdiff_t>(i));
    const NodeId current = std::exchange(current_, pending.node);
    add(*pending.block,
        std::make_unique<RankWaitStep>(pending.transfer, pending.out, code_.num_states++),
        {pending.in, pending.staging}, {pending.out});
    current_ = current;
    return;
  }
}

void Lowering::wait_for_all() {
  while (!waits_.empty()) wait_for(waits_.front().out.buffer);
}

}  // namespace cleave
