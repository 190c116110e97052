#include "cleave/ops/elementwise/family.h"

#include "cleave/ops/families.h"
#include "cleave/ops/samples.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) {
  register_elementwise_ops(registry);
  register_quantized_ops(registry);
}

void extend_family(OpRegistry& registry) {
  add_elementwise_batch_rules(registry);
  add_elementwise_derivatives(registry);
  add_elementwise_samples(registry);
  add_quantized_samples(registry);
}

}  // namespace

const OpFamily kElementwiseFamily{define_family, extend_family};

}  // namespace cleave
