#pragma once

#include <functional>
#include <vector>

#include "cleave/runtime/tensor.h"

namespace cleave {

// The branch of an i32 scalar; the last one if it is out of range. Branches give values of the
// same types and may use tensors from outside; what they record belongs to them, so only the chosen
// one is computed. Conditions, loops and scans over trees of tensors: cleave/transforms/flow.h.
std::vector<Tensor> switch_case(const Tensor& index,
                                const std::vector<std::function<std::vector<Tensor>()>>& branches);

}  // namespace cleave
