#pragma once

#include <string>

#include "cleave/discover/discover.h"

namespace cleave {

// Rule code for review, made from what was discovered. Implied rules are left out, and so are rules
// of results after the first if a notation has one result only.

// The short notation and a C++ RuleFn with its partial transfer, one per sample that differs.
std::string emit_cleave(const Discovery& discovery);
// A GoogleTest program over Cleave's public headers: every found strategy that the rules of the
// operator's definition claim, with three assertions each: no communication, the placements of the
// results, and the numbers. Found strategies that they do not claim are listed as comments.
std::string emit_cleave_tests(const Operator& op, const Discovery& discovery);
// A PyTorch DTensor single-dim strategy, conditions and index maps included.
std::string emit_dtensor(const Discovery& discovery);
// Tests of the found strategies against DTensor, the same three assertions. They take a fixture
// `mesh`, a one-dimensional device mesh.
std::string emit_dtensor_tests(const Discovery& discovery);
// #sdy.op_sharding_rule<...> for every sample.
std::string emit_shardy(const Discovery& discovery);

// A name as part of an identifier: "stablehlo.add" -> "stablehlo_add".
std::string identifier(const std::string& op);

}  // namespace cleave
