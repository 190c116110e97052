#pragma once

#include <string>
#include <string_view>

#include "cleave/discover/engine.h"

namespace cleave {

// A witness as it is printed is a reproduction that can be run again:
//
//   relu(1 f64)  P(sum) -> P(sum)  on 2 devices
//     operand 0 P(sum) = [0] as [-1] [1]
//     element 0: expected 0, the devices give 1
struct WitnessText {
  std::string op;
  Witness witness;
};
// Throws UserError that names the line if the text is no witness. The last line may be missing.
WitnessText parse_witness(std::string_view text);

// Runs the operator on the operands and on each device's parts, and says what came out.
//
//   relu(1 f64)  P(sum) -> P(sum)  on 2 devices
//     the true result: [0]
//     device 0: [0]
//     device 1: [1]
//     refuted: element 0: expected 0, the devices give 1
std::string replay(const Operator& op, Witness witness);

}  // namespace cleave
