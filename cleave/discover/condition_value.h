#pragma once

#include <optional>
#include <string>

#include "cleave/core/shape.h"
#include "cleave/discover/operator.h"

namespace cleave {

// What the words of a condition stand for: attributes, `d`, and `rank` and `size(...)` of a shape.
struct ConditionScope {
  AttrMap attrs;  // dimensions counted from the front
  std::optional<int64_t> d;
  Shape shape;
};

// The value of a condition as reports write it: "d != dim and not keepdim", "d in dims",
// "k == size(dim)", "d < rank - 1", "below(d, dims) == 1" (one of the dims is smaller than d),
// "(mode == 'sum' or mode == 'mean')". An empty one holds. Nothing if it has words that the scope
// does not know, such as `w`, or is not an expression.
std::optional<bool> condition_holds(const std::string& condition, const ConditionScope& scope);

}  // namespace cleave
