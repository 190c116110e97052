#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_batch_norm_ops(OpRegistry& registry);
void register_normalize_ops(OpRegistry& registry);
void register_reduce_ops(OpRegistry& registry);
void register_reduce_window_ops(OpRegistry& registry);
void add_local_reduction_forms(OpRegistry& registry);
void add_local_window_forms(OpRegistry& registry);
void add_reduce_derivatives(OpRegistry& registry);
void add_reduction_batch_rules(OpRegistry& registry);
void add_window_derivatives(OpRegistry& registry);
void add_reduction_samples(OpRegistry& registry);
void add_normalize_samples(OpRegistry& registry);
void add_reduction_expansions(OpRegistry& registry);
void add_normalize_expansions(OpRegistry& registry);

}  // namespace cleave
