#pragma once

#include <string>
#include <vector>

#include "cleave/core/dtype.h"
#include "cleave/core/shape.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave::soak {

// A value of a random program. Floats hold whole numbers no larger than `bound`, small enough for
// their dtype that sums of them are exact in any order: every way of running a program must then
// give the same numbers, not nearly the same.
struct Value {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  double bound = 0;
  bool whole = true;  // false: has fractions, and is only returned
};

// One op of the program: the text that computes `result` from values and nothing else.
struct Step {
  Value result;
  std::vector<std::string> operands;
  std::string text;  // lines of StableHLO, each ending in a newline
};

// A function of random ops, as data that a failure can be shrunk in.
struct RandomProgram {
  std::vector<Value> args;
  std::vector<Step> steps;
  std::vector<Value> results;
  std::string functions;  // private functions that steps call

  std::string text() const;  // the module
};

// Ops of all families over small, mostly uneven shapes; the same seed gives the same program.
RandomProgram random_program(uint64_t seed);

}  // namespace cleave::soak
