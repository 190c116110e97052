#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_collective_ops(OpRegistry& registry);
void register_transfer_ops(OpRegistry& registry);
void add_collective_derivatives(OpRegistry& registry);
void add_collective_batch_rules(OpRegistry& registry);
void add_collective_expansions(OpRegistry& registry);

}  // namespace cleave
