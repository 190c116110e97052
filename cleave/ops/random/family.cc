#include "cleave/ops/random/family.h"

#include "cleave/ops/diff_util.h"
#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) { register_random_ops(registry); }

void extend_family(OpRegistry& registry) {
  add_random_batch_rules(registry);
  add_random_samples(registry);
  set_no_derivative(registry, "random", {"stablehlo.rng"});
  set_no_derivative(registry, "integers", {"stablehlo.rng_bit_generator"});
}

}  // namespace

const OpFamily kRandomFamily{define_family, extend_family};

}  // namespace cleave
