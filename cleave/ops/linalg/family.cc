#include "cleave/ops/linalg/family.h"

#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) { register_linalg_ops(registry); }

void extend_family(OpRegistry& registry) {
  add_linalg_batch_rules(registry);
  add_linalg_derivatives(registry);
  add_linalg_samples(registry);
}

}  // namespace

const OpFamily kLinalgFamily{define_family, extend_family};

}  // namespace cleave
