#include "cleave/ops/shape/family.h"

#include "cleave/ops/diff_util.h"
#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) {
  register_dynamic_shape_ops(registry);
  register_shape_ops(registry);
}

void extend_family(OpRegistry& registry) {
  add_dynamic_shape_batch_rules(registry);
  add_local_view_forms(registry);
  add_shape_batch_rules(registry);
  add_shape_derivatives(registry);
  add_shape_samples(registry);
  add_dynamic_shape_samples(registry);
  set_no_derivative(
      registry, "sizes",
      {"stablehlo.get_dimension_size", "stablehlo.set_dimension_size", "stablehlo.dynamic_iota"});
  add_dynamic_shape_expansions(registry);
}

}  // namespace

const OpFamily kShapeFamily{define_family, extend_family};

}  // namespace cleave
