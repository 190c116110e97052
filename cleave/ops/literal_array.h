#pragma once

#include "cleave/graph/literal.h"
#include "cleave/kernels/array.h"

namespace cleave {

// A constant as an array that shares its bytes: nothing is copied, and a splat is a view with
// strides of zero.
Array array_of(const Literal& literal);

}  // namespace cleave
