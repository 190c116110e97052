#pragma once

#include <string_view>

#include "cleave/graph/op_def.h"
#include "cleave/transforms/prepare.h"

namespace cleave {

// Whether derivatives go through the op: by a rule of its own, or because transforms know its
// structure or take it apart.
bool has_derivative(const OpDef& def, DiffMode mode);
// Whether vmap knows the op.
bool has_batch(const OpDef& def);

// Why an op needs no derivative, in a word or two that docs/ops.md explains: "integers", "no
// operand";
// empty if it has one, or if it ought to have one.
std::string_view why_no_derivative(const OpDef& def);
std::string_view why_no_batch(const OpDef& def);
// What the words mean.
struct Reason {
  std::string_view word, meaning;
};
std::span<const Reason> reasons();

}  // namespace cleave
