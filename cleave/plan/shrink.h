#pragma once

#include <string>
#include <vector>

#include "cleave/spmd/program.h"

namespace cleave::plan {

struct ShrinkOptions {
  int64_t most_devices = 16;  // axes of larger meshes become shorter
  int64_t least = 2;          // elements that a shard keeps along a dimension
};

// The same Program on smaller tensors, over fewer devices: every op, every change of layout and
// every layout stays, and so does the remainder of every dimension by its number of shards (of the
// smaller mesh, if the mesh becomes smaller: what was even stays even). Sizes are unknowns that
// the ops' rules tie together; what an attribute or a window fixes is kept. What a program means at
// these sizes is what it means at the others, so that a plan for a cluster can be run on a desk.
//
//   8 x 4096 x 14336 over data=8, model=8   ->   4 x 4 x 4 over data=2, model=2
struct Shrunk {
  Program program;
  std::vector<std::string> changes;  // "data: 8 -> 2", "4096 -> 4 (31 dimensions)"
};
// Programs with manual computations, whose inner sizes are the user's own, are given back as they
// are.
Shrunk shrink(const Program& program, const ShrinkOptions& options = {});

// The program without its changes of layout: the logical module on whole tensors.
Graph without_transfers(const Program& program);

}  // namespace cleave::plan
