#pragma once

#include <vector>

#include "cleave/runtime/tensor.h"

// Ops that move elements. Dimensions may be negative: they count from the end.
namespace cleave {

// One size may be -1: what is left.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation = {});  // {}: reversed

}  // namespace cleave
