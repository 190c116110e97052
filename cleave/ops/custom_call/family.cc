#include "cleave/ops/custom_call/family.h"

#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) { register_custom_call_ops(registry); }

void extend_family(OpRegistry& registry) {
  add_custom_call_batch_rules(registry);
  add_custom_call_derivatives(registry);
  add_custom_call_samples(registry);
  add_custom_call_expansions(registry);
}

}  // namespace

const OpFamily kCustomCallFamily{define_family, extend_family};

}  // namespace cleave
