#pragma once

#include <string_view>

#include "cleave/runtime/tensor.h"

namespace cleave {

// stablehlo.optimization_barrier {cleave.stop_gradient}: transforms let nothing flow back.
inline constexpr std::string_view kStopGradient = "cleave.stop_gradient";

// The same value, through which no derivative flows; `stop_gradient` does it to trees of tensors.
Tensor stopped(const Tensor& x);

}  // namespace cleave
