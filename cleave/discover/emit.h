#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

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

// What PyTorch knows of an overload that was discovered: its schema, and how it was called.
struct TorchArgument {
  std::string name;
  bool is_list = false;
  bool keyword_only = false;
  std::string fallback;  // the default, as a Python literal; empty if there is none
};
struct TorchOverload {
  std::string name;       // aten.linalg_cross.default
  std::string signature;  // linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor
  std::vector<TorchArgument> arguments;
  // Of each operand, the argument that has it, and the place in a list of tensors, or -1.
  std::vector<std::pair<int, int>> operands;
  // Arguments with one value in all calls, as Python literals. The others are attributes.
  std::map<std::string, std::string> fixed;
};
// The strategy of an overload: arguments by position or keyword, no row for calls unlike those that
// were tried.
std::string emit_dtensor(const Discovery& discovery, const TorchOverload& overload);
// A pytest file that needs nothing but the strategy, in a file `rule_file` beside it.
std::string emit_dtensor_tests(const Discovery& discovery, const TorchOverload& overload,
                               const std::string& rule_file);
// #sdy.op_sharding_rule<...> for every sample.
std::string emit_shardy(const Discovery& discovery);

// A name as part of an identifier: "stablehlo.add" -> "stablehlo_add".
std::string identifier(const std::string& op);

}  // namespace cleave
