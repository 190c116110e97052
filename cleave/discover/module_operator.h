#pragma once

#include <string>

#include "cleave/discover/operator.h"

namespace cleave {

// The function "main" of a StableHLO module as an operator, whatever it is made of. Calls inside
// are inlined. What a device computes follows from the text: a dimension that ops carry along is
// split in every value as it is in the operand, and each op takes its part on a device (a slice has
// bounds, an iota an offset). No rule is asked whether that is right.
//
//   softmax(x):  subtract x and the maxima of its rows, ...     S(1): every device with the maxima
//                                                               of its columns alone: refuted
Operator operator_of_module(std::string name, Graph module);

}  // namespace cleave
