#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// The parts of the family: definitions of ops, and what is added to them.
void register_chlo_ops(OpRegistry& registry);
void register_structured_chlo_ops(OpRegistry& registry);
void add_chlo_derivatives(OpRegistry& registry);
void add_chlo_samples(OpRegistry& registry);
void add_chlo_expansions(OpRegistry& registry);
void add_scan_expansion(OpRegistry& registry);

}  // namespace cleave
