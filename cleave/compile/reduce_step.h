#pragma once

#include <memory>

#include "cleave/compile/device_code.h"
#include "cleave/kernels/reduce.h"

namespace cleave {

// Folds dimensions of a view, with the bits of the kernel (cleave/kernels/reduce.h). Neither view
// is empty; F16 has been widened.
std::unique_ptr<CodeStep> make_reduce_step(const CodeView& operand,
                                           const std::vector<int64_t>& dims, Reducer reducer,
                                           const CodeView& init, const CodeView& result,
                                           int threads);

}  // namespace cleave
