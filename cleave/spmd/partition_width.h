#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// A float of 16 bits, whose sums over devices are kept in 32.
inline bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

// The body of a reduction: a sum of F32.
void add_sum_body(Graph& graph, RegionId region);

}  // namespace cleave
