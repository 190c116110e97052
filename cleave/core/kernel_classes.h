#pragma once

#include "cleave/core/op_cost.h"

namespace cleave {

// Classes of kernels beside those that every op knows by name (op_cost.h), each for the few ops
// that are one. Numbers go on where KernelClass ends.
inline constexpr KernelClass kFunctionClass{kNumKernelClasses};      // exp, tanh: elementwise, with
                                                                     // arithmetic to it
inline constexpr KernelClass kIndexingClass{kNumKernelClasses + 1};  // gather, scatter: memory in
                                                                     // an order that the data say
inline constexpr KernelClass kConvolutionClass{kNumKernelClasses + 2};
inline constexpr int kNumAllKernelClasses = kNumKernelClasses + 3;

}  // namespace cleave
