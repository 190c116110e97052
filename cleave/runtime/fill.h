#pragma once

#include <string_view>

#include "cleave/graph/type.h"
#include "cleave/kernels/array.h"

namespace cleave {

// An array of a static tensor type, from a short description:
//   zeros, ones      all elements
//   iota             0, 1, 2, ... in row-major order
//   random:SEED      floats and complex parts normally distributed, integers in [0, 10), bools
//                    true or false alike; element i depends on the seed and i alone
//   uniform:SEED     the same with floats evenly distributed in [0, 1)
//   FILE.npy         from a file of this type
// Throws UserError if the text is none of them or the file has another type.
Array make_array(const Type& type, std::string_view description);

}  // namespace cleave
