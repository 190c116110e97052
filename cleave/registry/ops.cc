#include "cleave/core/error.h"
#include "cleave/ops/batch_rules.h"
#include "cleave/ops/diff_util.h"
#include "cleave/ops/expansions.h"
#include "cleave/ops/families.h"
#include "cleave/ops/local_forms.h"
#include "cleave/ops/op.h"

namespace cleave {

const OpRegistry& op_registry() {
  static const OpRegistry registry = [] {
    OpRegistry r;
    register_elementwise_ops(r);
    register_convolution_ops(r);
    register_chlo_ops(r);
    register_structured_chlo_ops(r);
    register_shape_ops(r);
    register_dynamic_shape_ops(r);
    register_random_ops(r);
    register_sort_ops(r);
    register_linalg_ops(r);
    register_batch_norm_ops(r);
    register_custom_call_ops(r);
    register_control_flow_ops(r);
    register_check_ops(r);
    register_quantized_ops(r);
    register_transfer_ops(r);
    register_fusion_ops(r);
    register_normalize_ops(r);
    register_collective_ops(r);
    register_sdy_ops(r);
    register_gather_scatter_ops(r);
    register_dot_ops(r);
    register_einsum_ops(r);
    register_reduce_ops(r);
    register_reduce_window_ops(r);
    // Local forms and rules of transforms come last: they add to what is registered.
    add_local_view_forms(r);
    add_local_reduction_forms(r);
    add_local_window_forms(r);
    add_local_index_forms(r);
    add_local_round_forms(r);
    add_elementwise_batch_rules(r);
    add_shape_batch_rules(r);
    add_dynamic_shape_batch_rules(r);
    add_dot_batch_rules(r);
    add_convolution_batch_rules(r);
    add_gather_scatter_batch_rules(r);
    add_reduction_batch_rules(r);
    add_linalg_batch_rules(r);
    add_random_batch_rules(r);
    add_control_flow_batch_rules(r);
    add_collective_batch_rules(r);
    add_sdy_batch_rules(r);
    add_custom_call_batch_rules(r);
    // Derivatives likewise.
    add_elementwise_derivatives(r);
    add_chlo_derivatives(r);
    add_shape_derivatives(r);
    add_reduce_derivatives(r);
    add_window_derivatives(r);
    add_dot_derivatives(r);
    add_convolution_derivatives(r);
    add_index_derivatives(r);
    add_linalg_derivatives(r);
    add_custom_call_derivatives(r);
    add_collective_derivatives(r);
    add_missing_derivatives(r);
    // Expansions ask which ops have derivatives.
    add_elementwise_expansions(r);
    add_body_expansions(r);
    add_index_expansions(r);
    add_size_expansions(r);
    add_contraction_expansions(r);
    add_norm_expansions(r);
    add_collective_expansions(r);
    add_call_expansions(r);
    add_scan_expansion(r);
    return r;
  }();
  return registry;
}

const OpDef* find_op(std::string_view name) { return op_registry().find(name); }

const OpDef& required_op(std::string_view name) {
  const OpDef* def = find_op(name);
  if (!def) throw_internal("there is no op {}", name);
  return *def;
}

}  // namespace cleave
