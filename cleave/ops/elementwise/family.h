#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_elementwise_ops(OpRegistry& registry);
void register_quantized_ops(OpRegistry& registry);
void add_elementwise_batch_rules(OpRegistry& registry);
void add_elementwise_derivatives(OpRegistry& registry);
void add_elementwise_samples(OpRegistry& registry);
void add_quantized_samples(OpRegistry& registry);
void add_elementwise_expansions(OpRegistry& registry);

}  // namespace cleave
