#include "cleave/ops/chlo/family.h"

#include "cleave/ops/families.h"
#include "cleave/ops/samples.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) {
  register_chlo_ops(registry);
  register_structured_chlo_ops(registry);
}

void extend_family(OpRegistry& registry) {
  add_chlo_derivatives(registry);
  add_chlo_samples(registry);
}

}  // namespace

const OpFamily kChloFamily{define_family, extend_family};

}  // namespace cleave
