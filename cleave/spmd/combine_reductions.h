#pragma once

#include "cleave/spmd/program.h"

namespace cleave {

// One all_reduce for the numbers that are reduced over the same axes in the same way, and do not
// depend on each other: the squares of each weight's gradient that a global norm adds up.
//
//   %a = all_reduce %0; %n = add %a, %1; %b = all_reduce %2; %m = add %n, %b
//   ->  %c = all_reduce (concatenate %0, %2); %a, %b = its elements; %n = ...; %m = ...
//
// Only ops on numbers change their place, and none moves across an op with effects.
// Returns how many all_reduces are gone.
int64_t combine_scalar_reductions(Program& program);

}  // namespace cleave
