#pragma once

#include "cleave/kernels/array.h"

namespace cleave {

// The array itself where it has the dtype; otherwise a converted, contiguous copy, as StableHLO's
// convert computes it.
Array convert(const Array& array, DType dtype);

}  // namespace cleave
