#include "cleave/ops/collective/family.h"

#include "cleave/ops/diff_util.h"
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
  set_no_derivative(registry, "constant", {"stablehlo.partition_id", "stablehlo.replica_id"});
  set_no_derivative(registry, "token", {"stablehlo.after_all", "stablehlo.create_token"});
  set_no_derivative(
      registry, "compiler",
      {"cleave.halo", "cleave.transfer", "cleave.enter_manual", "cleave.leave_manual"});
  add_collective_expansions(registry);
}

}  // namespace

const OpFamily kCollectiveFamily{define_family, extend_family};

}  // namespace cleave
