#pragma once

#include <string>

#include "cleave/kernels/array.h"

namespace cleave {

// An element as text: 1, -3, true, 1.000000e+00, [3.140000e+00, 1.000000e+00]. Floats have six
// digits, or as many as it takes to read the same number back.
std::string element_text(DType dtype, const std::byte* element);

// The array with its type, as StableHLO's interpreter prints it:
//   tensor<2x2xi8> {
//     [
//       [1, 2],
//       [3, 4]
//     ]
//   }
// A row with more than `limit` elements shows its ends:  [1, 2, ..., 9].
std::string to_text(const Array& array, int64_t limit = 1000);

}  // namespace cleave
