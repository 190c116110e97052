#pragma once

#include <span>
#include <vector>

#include "cleave/ops/eval.h"

namespace cleave {

// Sorts several arrays of one shape along a dimension, in the order of a comparator: a region of
// scalar code whose arguments are a0, b0, a1, b1, ..., one pair for each array, and which says
// whether a comes before b. A comparator of a usual form becomes keys; any other one is run.
std::vector<Array> sort_by_comparator(EvalContext& context, RegionId comparator,
                                      std::span<const Array> operands, int64_t dim);

}  // namespace cleave
