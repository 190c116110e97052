#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// How ops run on one device's part, where that is more than smaller shapes (see graph/local_op.h).
// One function per file of local forms; each adds the hooks to ops that are registered already.
void add_local_view_forms(OpRegistry& registry);  // constant, iota, slice, pad, concatenate, ...
void add_local_reduction_forms(OpRegistry& registry);  // reduce, scatter: what is counted once
void add_local_window_forms(OpRegistry& registry);     // reduce_window, convolution
void add_local_index_forms(OpRegistry& registry);      // gather, dynamic_slice
void add_local_round_forms(OpRegistry& registry);      // top_k

}  // namespace cleave
