#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_convolution_ops(OpRegistry& registry);
void add_convolution_batch_rules(OpRegistry& registry);
void add_convolution_derivatives(OpRegistry& registry);
void add_convolution_samples(OpRegistry& registry);

}  // namespace cleave
