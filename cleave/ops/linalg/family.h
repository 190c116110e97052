#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_linalg_ops(OpRegistry& registry);
void add_linalg_batch_rules(OpRegistry& registry);
void add_linalg_derivatives(OpRegistry& registry);
void add_linalg_samples(OpRegistry& registry);

}  // namespace cleave
