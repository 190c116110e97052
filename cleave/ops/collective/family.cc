#include "cleave/ops/collective/family.h"

#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) {
  register_collective_ops(registry);
  register_transfer_ops(registry);
}

void extend_family(OpRegistry& registry) {
  add_collective_derivatives(registry);
  add_collective_batch_rules(registry);
}

}  // namespace

const OpFamily kCollectiveFamily{define_family, extend_family};

}  // namespace cleave
