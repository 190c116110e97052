#include "cleave/ops/convolution/family.h"

#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) { register_convolution_ops(registry); }

void extend_family(OpRegistry& registry) {
  add_convolution_batch_rules(registry);
  add_convolution_derivatives(registry);
  add_convolution_samples(registry);
}

}  // namespace

const OpFamily kConvolutionFamily{define_family, extend_family};

}  // namespace cleave
