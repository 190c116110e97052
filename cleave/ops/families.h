#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// Every family registers its ops; the list in registry.cc names the families.
void register_elementwise_ops(OpRegistry& registry);
void register_convolution_ops(OpRegistry& registry);
void register_chlo_ops(OpRegistry& registry);
void register_structured_chlo_ops(OpRegistry& registry);
void register_shape_ops(OpRegistry& registry);
void register_dynamic_shape_ops(OpRegistry& registry);
void register_random_ops(OpRegistry& registry);
void register_sort_ops(OpRegistry& registry);
void register_linalg_ops(OpRegistry& registry);
void register_batch_norm_ops(OpRegistry& registry);
void register_custom_call_ops(OpRegistry& registry);
void register_control_flow_ops(OpRegistry& registry);
void register_check_ops(OpRegistry& registry);
void register_quantized_ops(OpRegistry& registry);
void register_transfer_ops(OpRegistry& registry);
void register_fusion_ops(OpRegistry& registry);
void register_normalize_ops(OpRegistry& registry);
void register_collective_ops(OpRegistry& registry);
void register_sdy_ops(OpRegistry& registry);
void register_gather_scatter_ops(OpRegistry& registry);
void register_dot_ops(OpRegistry& registry);
void register_einsum_ops(OpRegistry& registry);
void register_reduce_ops(OpRegistry& registry);
void register_reduce_window_ops(OpRegistry& registry);

}  // namespace cleave
