#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"

namespace cleave::analyze {

// The collectives that a program for all devices (spmd/single_program.h) asks for, by kind: what an
// engine is given, before it makes something of it.
struct AskedCollective {
  std::string kind;  // as XLA names it: "all-reduce", "collective-permute"
  double executions = 0;
  // By one device, if an all_reduce is a ring: as plans count it (TransferCost::bytes), on arrays
  // as large as the largest shard.
  double received_bytes = 0;
  // The part of it that XLA's compiler for CPUs moves in a type of twice the width: bf16, which it
  // computes as f32, and floats of 8 bits, which it computes as f16.
  double narrow_bytes = 0;
};

// What one device of `ranks` receives of a collective whose operands have so many bytes on each:
//   all_gather b (n-1), all_reduce 2 b (n-1)/n, reduce_scatter and all_to_all b (n-1)/n, permute b
double received_bytes(CollectiveKind kind, double operands, int64_t ranks);

// Loops count as many trips as they say, or `trips`; of the branches of a condition the one that
// receives most counts.
std::vector<AskedCollective> asked_collectives(const Graph& graph, const std::string& entry,
                                               int64_t devices, int64_t trips = 1);

// The kind of a change of layout of a Program in the same words; empty if it moves nothing.
//   "all_gather" -> "all-gather", "halo" -> "collective-permute", "all_slice" -> ""
std::string asked_kind(const std::string& transfer);

}  // namespace cleave::analyze
