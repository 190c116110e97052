#include "cleave/ops/dot/family.h"

#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) {
  register_dot_ops(registry);
  register_einsum_ops(registry);
}

void extend_family(OpRegistry& registry) {
  add_dot_batch_rules(registry);
  add_dot_derivatives(registry);
  add_dot_samples(registry);
  add_einsum_expansions(registry);
}

}  // namespace

const OpFamily kDotFamily{define_family, extend_family};

}  // namespace cleave
