#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_custom_call_ops(OpRegistry& registry);
void add_custom_call_batch_rules(OpRegistry& registry);
void add_custom_call_derivatives(OpRegistry& registry);
void add_custom_call_samples(OpRegistry& registry);
void add_custom_call_expansions(OpRegistry& registry);

}  // namespace cleave
