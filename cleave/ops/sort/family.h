#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_sort_ops(OpRegistry& registry);
void add_local_round_forms(OpRegistry& registry);

}  // namespace cleave
