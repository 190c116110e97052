#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/reshard/reshard.h"
#include "cleave/spmd/op_layouts.h"

namespace cleave::plan {

// One question at a time: what an op takes in given layouts, and what it takes to get from one
// layout to another. The planner's tables consist of these answers.
//
//   const MeshPtr mesh = ...;  // x=4
//   const ShardingSpec rows = parse_sharding("[{\"x\"}, {}]", mesh), whole = ...;
//   compute_cost(graph, dot, {{rows, whole}, {rows}}, builtin_profile("h100")).seconds;
//   memory_cost(graph, dot, {{rows, whole}, {rows}}).operands;      // bytes on one device
//   communication_cost(graph, value, rows, whole, profile).seconds();
//
// A Graph whose ops are marked by what an executor makes of them, as `flatten(graph, "main",
// profile)` returns it (names.h), gives the costs of their parts of fused kernels, which are those
// of plans. Without marks an op is a kernel of its own.
//
// Each spec has a mesh, the same one for all, but for what is not a ranked tensor. Every function
// throws UserError with one line that says what is wrong with the specs: their number or ranks,
// another mesh, axes that the mesh does not have, or layouts in which the op cannot run as it is.
// Times are those of the device with the largest shards. Devices that share cores
// (MachineProfile::concurrent_devices) are all taken to be busy.

// What a time would no longer be if it were free.
enum class Limit : uint8_t { Nothing, Arithmetic, Memory, Launch };
std::string_view name(Limit limit);  // "nothing", "arithmetic", "memory", "launch"

struct ComputeCost {
  double seconds = 0;
  // Launches alone, and what arithmetic and memory would take beside them, each without the other.
  // The larger of these two limits most kernels; they do not add up to `seconds`.
  double launch = 0, arithmetic = 0, memory = 0;
  Limit limit() const;  // the largest part
};
ComputeCost compute_cost(const Graph& graph, NodeId node, const OpLayouts& specs,
                         const MachineProfile& profile);

// The same for callers that ask about many ops of a plan, in layouts that are known to be right.
class ComputeQuestions {
 public:
  ComputeQuestions(const Graph& graph, MeshPtr mesh, const MachineProfile& profile);
  ComputeCost ask(NodeId node, const OpLayouts& specs) const;

 private:
  const Graph& graph_;
  const MeshPtr mesh_;
  // The machine, and the same with memory, with arithmetic and with both of them free.
  const MachineProfile profile_, no_memory_, no_arithmetic_, launches_;
};

// Bytes of the device with the largest shards while the op runs. What is only inside of kernels
// takes none.
struct MemoryCost {
  int64_t operands = 0;  // an operand that is given twice counts once
  int64_t results = 0;
  // What the op's local form and its kernel hold beside them if Cleave runs it. 0 if the op is
  // marked: what kernels of other executors take for themselves is not known.
  int64_t temporaries = 0;
  int64_t total() const { return operands + results + temporaries; }
};
MemoryCost memory_cost(const Graph& graph, NodeId node, const OpLayouts& specs);
// The same in layouts that are known to be right.
MemoryCost memory_in(const Graph& graph, NodeId node, const OpLayouts& specs, const MeshPtr& mesh);

// The cheapest change of layout of a value, by steps; nothing if the layouts are the same.
struct CommunicationCost {
  ReshardPlan way;
  // If the value is only inside of a kernel (see above): writing and reading it.
  double spill_seconds = 0;
  double seconds() const { return way.seconds + spill_seconds; }
};
// `parts`: see Plan::parts.
CommunicationCost communication_cost(const Graph& graph, ValueId value, const ShardingSpec& from,
                                     const ShardingSpec& to, const MachineProfile& profile,
                                     const std::vector<AxisList>& parts = {});

}  // namespace cleave::plan
