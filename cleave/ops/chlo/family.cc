#include "cleave/ops/chlo/family.h"

#include "cleave/ops/diff_util.h"
#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) {
  register_chlo_ops(registry);
  register_structured_chlo_ops(registry);
}

void extend_family(OpRegistry& registry) {
  add_chlo_derivatives(registry);
  add_chlo_samples(registry);
  set_no_derivative(registry, "integers", {"chlo.mulhi"});
  set_no_derivative(registry, "step", {"chlo.next_after"});
  add_chlo_expansions(registry);
  add_scan_expansion(registry);
}

}  // namespace

const OpFamily kChloFamily{define_family, extend_family};

}  // namespace cleave
