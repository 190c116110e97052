#pragma once

#include "cleave/kernels/array.h"

namespace cleave {

struct TopK {
  Array values;
  Array indices;  // i32
};

// The k largest elements of each row, largest first, equal ones in the order of their indices.
// Floats are ordered as totalOrder does: NaN above infinity.
TopK top_k(const Array& x, int64_t k);

}  // namespace cleave
