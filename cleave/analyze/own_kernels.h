#pragma once

#include <string_view>
#include <vector>

#include "cleave/analyze/kernels.h"

namespace cleave::analyze {

// What this library's own compiler makes of a function, by node: its passes (cleave/compile) run on
// a copy, and say themselves what they fuse.
//
//   a member of a fusion     works 1 for its loop, reads 1 for what it is the first to take from
//                            memory, writes 1 if its result leaves the fusion
//   a product, a gather      priced as an op by itself; what an epilogue computes is a loop
//   a view, a constant       nothing, unless elements have to be put in order
//
// A node that is computed a second time, to be kept no longer, has works 2. Nodes that are not
// there, because others compute the same, get nothing.
void mark_own_kernels(const Graph& graph, std::string_view entry, std::vector<KernelUse>& uses);

}  // namespace cleave::analyze
