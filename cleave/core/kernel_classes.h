#pragma once

#include "cleave/core/op_cost.h"

namespace cleave {

// Classes of kernels beside those of op_cost.h, each for a few ops. Values continue after the last
// KernelClass.
// Elementwise ops that compute, as opposed to copies: exp, tanh.
inline constexpr KernelClass kFunctionClass{kNumKernelClasses};
// Ops that read or write memory in an order that the data give: gather, scatter.
inline constexpr KernelClass kIndexingClass{kNumKernelClasses + 1};
inline constexpr KernelClass kConvolutionClass{kNumKernelClasses + 2};
inline constexpr int kNumAllKernelClasses = kNumKernelClasses + 3;

}  // namespace cleave
