#include "cleave/compile/rank_steps.h"
#include "cleave/core/seconds_now.h"

#include <algorithm>
#include <chrono>

namespace cleave {
CodeStep::Next RankStartStep::run(Frame& frame) const {
  if (frame.done) frame.done->push_back(node);
  transfer->start(frame.data(operand_), frame.data(staging_), frame.data(result_));
  frame.under_way.push_back(transfer.get());
  transfer->advance();
  if (frame.observer && !transfer->is_alone())
    frame.observer->started(frame.code->graph, frame.code->graph.node(node), frame.device,
                            transfer->started_at(), seconds_now());
  return Next::Continue;
}

// States: 0 comes for the first time, 1 has waited.
CodeStep::Next RankWaitStep::run(Frame& frame) const {
  int& at = frame.state[state_];
  if (at == 0) {
    at = 1;
    if (frame.observer) frame.waits_since = seconds_now();
  }
  advance_transfers(frame);  // others of this rank may wait for this device's part in them
  if (!transfer->advance_or_throw()) return Next::Wait;
  at = 0;
  std::erase(frame.under_way, transfer.get());
  if (!frame.observer) return Next::Continue;
  const Graph& graph = frame.code->graph;
  const Array result = frame.array(result_);
  if (!transfer->is_alone())
    frame.observer->under_way(graph, graph.node(node), frame.device, transfer->started_at(),
                              transfer->ended_at());
  frame.observer->executed(graph, graph.node(node), frame.device, {&result, 1}, frame.waits_since,
                           seconds_now());
  return Next::Continue;
}

void advance_transfers(Frame& frame) {
  for (RankTransfer* transfer : frame.under_way) transfer->advance();
}

}  // namespace cleave
