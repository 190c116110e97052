#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/discover/inputs.h"
#include "cleave/discover/operator.h"
#include "cleave/discover/properties.h"

namespace cleave {

enum class OpCategory : uint8_t {
  Pointwise,   // every element for itself, after broadcasting
  Reduction,   // dimensions of the operand are gone, or have size 1
  MatmulLike,  // linear in each of two operands
  CrossDim,    // a result of the operand's shape whose elements depend on others: softmax, cross
  View,        // elements of the operands, at places that do not depend on their numbers
  Index,       // an operand holds positions or masks of another
  Sort,        // elements or positions in order, or found in an ordered operand
  Random,      // equal calls have different results
  Factory,     // the result depends on shapes alone
  Other,
};
std::string_view name(OpCategory category);  // "matmul-like"

// An attribute and what it does, in a sentence.
struct ParameterRole {
  std::string name;
  std::string how;
};

// What an operator is, found by a few runs of it, before any placement is tried.
struct Analysis {
  OpCategory category = OpCategory::Other;
  bool deterministic = true;
  std::string reason = {};  // why not
  std::optional<ParameterRole> dim_parameter;
  std::optional<ParameterRole> keepdim_parameter;
  std::vector<ParameterRole> other_parameters;  // that change which rules hold
  std::vector<MathProperty> properties;
};
Analysis analyze_operator(const Operator& op, uint64_t seed = 0);
std::string to_string(const Analysis& analysis);  // a line or two for people

// Inputs that are hard for such an operator: 5 to 20 ways to fill its operands.
std::vector<InputGenerator> adversarial_generators(const Operator& op, const Analysis& analysis);

}  // namespace cleave
