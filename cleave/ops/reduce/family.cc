#include "cleave/ops/reduce/family.h"

#include "cleave/ops/diff_util.h"
#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) {
  register_batch_norm_ops(registry);
  register_normalize_ops(registry);
  register_reduce_ops(registry);
  register_reduce_window_ops(registry);
}

void extend_family(OpRegistry& registry) {
  add_local_reduction_forms(registry);
  add_local_window_forms(registry);
  add_reduce_derivatives(registry);
  add_reduction_batch_rules(registry);
  add_window_derivatives(registry);
  add_reduction_samples(registry);
  add_normalize_samples(registry);
  set_no_derivative(registry, "compiler", {"cleave.softmax", "cleave.layer_norm"});
  add_reduction_expansions(registry);
  add_normalize_expansions(registry);
}

}  // namespace

const OpFamily kReduceFamily{define_family, extend_family};

}  // namespace cleave
