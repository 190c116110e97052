#pragma once

#include <map>
#include <vector>

#include "cleave/runtime/executor.h"

namespace cleave::plan {

// Which way a run went: how often each region of a graph ran.
using RegionRuns = std::vector<int64_t>;  // by RegionId

// Runs a function on one device, as run_function does, and counts.
struct CountedRun {
  std::vector<Array> results;
  RegionRuns runs;
};
CountedRun run_counted(const Graph& graph, const std::string& entry, std::span<const Array> args);

// Counts what a device of a running Program executes, by the Program's nodes: for modules that no
// single device can run, as with manual computations.
class DevicePath : public Observer {
 public:
  DevicePath(const Executor& executor, int64_t device);
  void executed(const Graph& graph, const Node& node, int64_t device,
                std::span<const Array> results, double begin, double end) override;

  int64_t executions(NodeId node) const { return counts_[node.index]; }  // of the Program
  RegionRuns runs() const;

 private:
  const Executor& executor_;
  int64_t device_;
  std::vector<int64_t> counts_;      // by node of the Program
  std::vector<int64_t> own_counts_;  // by node of the device: several may stand for one
  std::vector<bool> is_inner_;       // in regions that the Program's node does not have
};

// Bodies of manual computations in place, between cleave.enter_manual and cleave.leave_manual, as
// the partitioner writes them.
bool has_manual_parts(const Graph& graph);
Graph with_manual_in_place(const Graph& graph);

}  // namespace cleave::plan
