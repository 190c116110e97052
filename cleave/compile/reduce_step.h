#pragma once

#include <memory>

#include "cleave/compile/device_code.h"
#include "cleave/compile/region_loop.h"
#include "cleave/kernels/reduce.h"

namespace cleave {

// Folds dimensions of a view, with the bits of the kernel (cleave/kernels/reduce.h). Neither view
// is empty; F16 has been widened.
std::unique_ptr<CodeStep> make_reduce_step(const CodeView& operand,
                                           const std::vector<int64_t>& dims, Reducer reducer,
                                           const CodeView& init, const CodeView& result,
                                           int threads);

// Folds `count` rows of `width` elements of several tensors by any body of elementwise ops
// (argmax), as the kernel does: neighbours in order, half as many each time, and the first values
// at the end.
struct RegionFold {
  RegionLoop body;
  int64_t count = 0, width = 0;
  std::vector<CodeView> rows;   // packed, overwritten
  std::vector<CodeView> inits;  // packed rows
  std::vector<CodeView> results;
  CodeView work;  // of body.scratch_bytes()
};
std::unique_ptr<CodeStep> make_region_fold_step(RegionFold fold);

}  // namespace cleave
