#pragma once

#include <string>

#include "cleave/discover/discover.h"

namespace cleave {

// Rule code for review, made from what was discovered. Implied rules are left out, as are those of
// results after the first where a notation has one result only.

// The short notation and a C++ RuleFn with its partial transfer, one per sample that differs.
std::string emit_cleave(const Discovery& discovery);
// A PyTorch DTensor single-dim strategy, conditions and index maps included.
std::string emit_dtensor(const Discovery& discovery);
// #sdy.op_sharding_rule<...> for every sample.
std::string emit_shardy(const Discovery& discovery);
// Tests of the found strategies against DTensor: no communication, result placement, numerics.
std::string emit_dtensor_tests(const Discovery& discovery);

}  // namespace cleave
