#pragma once

#include "cleave/kernels/loop.h"

namespace cleave {

// Two loops of float32 arithmetic as one of three operands, which saves a pass through the cache:
//   paired_loop(add, multiply, true)    (a + b) * c
//   paired_loop(add, divide, false)     c / (a + b)
// Each op rounds as it does alone. Null if either is not an addition, subtraction, multiplication
// or division of float32.
Loop paired_loop(Loop first, Loop second, bool first_is_left);

}  // namespace cleave
