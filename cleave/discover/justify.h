#pragma once

#include <string>
#include <vector>

#include "cleave/discover/discover.h"

namespace cleave {

// Why a rule holds, in a sentence, as its placements tell:
//   S(d) -> S(d)                   batch dimension
//   S(d) -> P(max)                 reduction (max) over the sharded dimension
//   R, P(sum) -> P(sum)            linear in operand 1
//   S(d), P(min) -> P(max)         reduction (max) over the sharded dimension; does not depend on
//                                  operand 1
// `any_parts`: the operands that are partial may be so in every other way too.
std::string justify(const std::vector<PlacePattern>& operands, const PlacePattern& out,
                    bool any_parts);

}  // namespace cleave
