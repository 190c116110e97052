#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_dot_ops(OpRegistry& registry);
void register_einsum_ops(OpRegistry& registry);
void add_dot_batch_rules(OpRegistry& registry);
void add_dot_derivatives(OpRegistry& registry);
void add_dot_samples(OpRegistry& registry);
void add_einsum_expansions(OpRegistry& registry);

}  // namespace cleave
