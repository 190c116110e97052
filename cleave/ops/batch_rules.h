#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// Every family adds the batching rules of its ops, after the ops are registered. Elementwise ops
// need none: see batch_elementwise in batch_util.h.
void add_elementwise_batch_rules(OpRegistry& registry);
void add_shape_batch_rules(OpRegistry& registry);
void add_dynamic_shape_batch_rules(OpRegistry& registry);
void add_dot_batch_rules(OpRegistry& registry);
void add_convolution_batch_rules(OpRegistry& registry);
void add_gather_scatter_batch_rules(OpRegistry& registry);
void add_reduction_batch_rules(OpRegistry& registry);
void add_linalg_batch_rules(OpRegistry& registry);
void add_random_batch_rules(OpRegistry& registry);
void add_control_flow_batch_rules(OpRegistry& registry);
void add_collective_batch_rules(OpRegistry& registry);
void add_sdy_batch_rules(OpRegistry& registry);
void add_custom_call_batch_rules(OpRegistry& registry);

}  // namespace cleave
