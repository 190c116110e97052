#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/xla/replica_groups.h"

namespace cleave::xla {

// One instruction of a compiled module that moves bytes between devices. Devices are numbered as
// XLA flattens them: replica * partitions + partition.
struct CompiledCollective {
  std::string
      kind;  // "all-reduce", also for its asynchronous forms; "send-recv" for a pair of those
  std::string name;     // of the instruction
  std::string op_name;  // of its metadata: where in the user's program it comes from
  DeviceGroups groups;  // empty for those that go by pairs
  DevicePairs pairs;
  int64_t operand_bytes = 0;  // of one device, all operands together
  // By one device in one execution, the one that receives most, if an all-reduce is a ring: as
  // plans count it (plan::CollectiveTotal::bytes).
  //   all-reduce 2 b (n-1)/n, all-gather b (n-1), reduce-scatter and all-to-all b (n-1)/n,
  //   collective-permute, collective-broadcast and send-recv b     of b operand bytes, n devices
  double received_bytes = 0;
  // How often it runs in a step if every condition above it takes its branch each time, and those
  // in the dearest branches alone (0 in the others).
  double executions = 1, counted = 1;
  bool is_async = false;
  bool in_branch = false;  // of a condition
  bool has_known_trips =
      true;                 // of the loops around it; if not, CompiledOptions::trips was assumed
  bool is_at_most = false;  // how much it moves is data (ragged-all-to-all)

  int64_t group_size() const;  // of the largest group; 2 for pairs, 1 if nothing moves
};

// All collectives of one kind over the same groups; pairs count as one kind, whatever they are.
struct CompiledTotal {
  std::string kind;
  DeviceGroups groups;
  int64_t group_size = 1;
  double executions = 0, received_bytes = 0;
};

// Bytes on one device. XLA's text has no temporaries; PJRT and JAX (`memory_analysis`) tell them.
struct CompiledMemory {
  int64_t arguments = 0, results = 0;
  int64_t aliased = 0;  // results that take the place of arguments
  std::optional<int64_t> temporaries;
  std::optional<int64_t> total() const {
    if (!temporaries) return std::nullopt;
    return arguments + results - aliased + *temporaries;
  }
};

// What XLA made of a program, by its own text.
struct CompiledProgram {
  std::string name;
  int64_t partitions = 1, replicas = 1;
  std::vector<CompiledCollective> collectives;  // as they are reached from the entry
  std::vector<CompiledTotal> totals;            // of `counted` executions; the most bytes first
  std::vector<std::string> unknown_loops;       // that run collectives, and do not say how often
  CompiledMemory memory;

  int64_t devices() const { return partitions * replicas; }
  double received_bytes() const;
};

struct CompiledOptions {
  // If the text does not say how many devices there are.
  std::optional<int64_t> devices;
  int64_t trips = 1;  // assumed for loops whose number of trips is not known
  std::optional<int64_t> temporaries;
};

// Reads the text of a compiled module (parse_hlo). A loop counts as many trips as XLA says it
// makes; what its condition runs, one more. Of the branches of a condition the one that receives
// most counts. Throws UserError.
CompiledProgram read_compiled(std::string_view text, const CompiledOptions& options = {});

//   jit_step: 8 devices
//   collective           executions     received   groups
//   all-reduce                   14     28.0 KiB   4 groups of 2: {0,4}, ...
//   ...
// and the dearest `most` of them one by one, with where they come from.
std::string to_string(const CompiledProgram& program, size_t most = 10);
std::string to_json(const CompiledProgram& program);

}  // namespace cleave::xla
