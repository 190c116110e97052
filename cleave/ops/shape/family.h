#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_dynamic_shape_ops(OpRegistry& registry);
void register_shape_ops(OpRegistry& registry);
void add_dynamic_shape_batch_rules(OpRegistry& registry);
void add_local_view_forms(OpRegistry& registry);
void add_shape_batch_rules(OpRegistry& registry);
void add_shape_derivatives(OpRegistry& registry);
void add_shape_samples(OpRegistry& registry);
void add_dynamic_shape_samples(OpRegistry& registry);
void add_dynamic_shape_expansions(OpRegistry& registry);

}  // namespace cleave
