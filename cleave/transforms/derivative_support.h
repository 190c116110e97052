#pragma once

#include "cleave/graph/op_def.h"
#include "cleave/transforms/prepare.h"

namespace cleave {

// Whether something may flow through the op: by a rule of its own, by what the transform does with
// its regions, or because it is taken apart into ops that have one.
bool has_derivative(const OpDef& def, DiffMode mode);

}  // namespace cleave
