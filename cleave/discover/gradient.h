#pragma once

#include "cleave/discover/operator.h"

namespace cleave {

// The reverse derivative of an operator as an operator of its own: operands and the cotangents of
// its results in, the cotangents of its operands out.
//
//   matmul(a, b):  gradient(a, b, c^) -> a^, b^
//     S(0), R, S(0) -> result 0: S(0)       the rows of a and of a^
//     S(0), R, S(0) -> result 1: P(sum)     b is used by every device, so its cotangent is a sum
//
// Operands of integers have no cotangent. Throws UserError if the operator has no visible
// definition, or flows through an op without a derivative.
Operator gradient_of(const Operator& op);

}  // namespace cleave
