#pragma once

#include <string>
#include <vector>

#include "cleave/discover/operator.h"

namespace cleave {

// An operator that another program computes, in any language: a true black box. The command is
// started by the shell, once for each thread, and answers one line for each line that it reads:
//
//   {"attrs": {"dim": 0}, "operands": [{"dtype": "f64", "shape": [2], "data": "000...f03f"}]}
//   {"results": [{"dtype": "f64", "shape": [2], "data": "..."}]}
//   {"error": "sizes 2 and 3 differ"}       the operator does not accept these operands
//
// `data` are the bytes of the elements, row-major and little-endian, in hexadecimal. A command that
// ends is started again; its end counts as not accepting the operands, up to kMostEnds times. A
// command that does not answer in time, or not in one line of this form, ends the run with a
// BrokenOperator.
inline constexpr int kMostEnds = 100;
struct CommandOptions {
  double timeout = 60;  // seconds for one answer, the start of the command included
};
Operator operator_of_command(std::string name, std::string command, std::vector<Sample> samples,
                             const CommandOptions& options = {});

}  // namespace cleave
