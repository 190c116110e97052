#pragma once

#include <vector>

#include "cleave/core/placement.h"
#include "cleave/discover/represent.h"

namespace cleave {

// Parts of whole numbers, one array per device, whose sum, product, maximum, minimum, and or or is
// `value`. Sums and products are those of the dtype and wrap around, so a part may be any number of
// it, its ends included:
//
//   12 under Prod:  2 * 6,  -3 * -4,  and in 8 bits  7 * 38 = 266 = 256 + 10 holds 10
//   5 under Sum:    127 + -122,  and in 8 bits  -128 + -123 = -256 + 5
//
// `value` is an integer array, not of Bool; averages are no reduction of whole numbers.
std::vector<Array> split_integers(const Array& value, ReduceOp op, int w, Decomposition how,
                                  NumberStream& random);

}  // namespace cleave
