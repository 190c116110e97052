#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/graph/graph.h"

namespace cleave {

struct RecomputeOptions {
  int64_t fewest_bytes = 32 << 10;  // smaller values are kept
  size_t distance = 8;              // nodes between a value and its readers, below which it is kept
  size_t most_nodes = 24;           // that are computed a second time for one value
  size_t most_expensive = 2;        // of them: tanh, exp and the like
};

// Values that one fusion writes and others read much later, as the backward pass reads those of the
// forward pass, are computed again where they are read, if what they are made of is there anyway:
//
//   %h, %t = fusion(%x) {t = tanh x; h = x * t}      %h = fusion(%x) {...}
//   ...                                         ->   ...
//   %d = fusion(%g, %x, %t) {...}                    %d = fusion(%g, %x) {t = tanh x; ...}
//
// This saves the memory of %t in between, and writing and reading it. Values that were reduced
// along rows are small and are kept. The pass comes after cleave-fuse.
bool recompute(Graph& graph, const RecomputeOptions& options = {});

}  // namespace cleave
