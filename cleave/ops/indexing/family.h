#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_gather_scatter_ops(OpRegistry& registry);
void add_gather_scatter_batch_rules(OpRegistry& registry);
void add_index_derivatives(OpRegistry& registry);
void add_local_index_forms(OpRegistry& registry);
void add_gather_scatter_samples(OpRegistry& registry);
void add_index_expansions(OpRegistry& registry);

}  // namespace cleave
