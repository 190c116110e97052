#include "cleave/ops/elementwise/family.h"

#include "cleave/ops/diff_util.h"
#include "cleave/ops/families.h"

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
  set_no_derivative(
      registry, "integers",
      {"stablehlo.and", "stablehlo.or", "stablehlo.xor", "stablehlo.not", "stablehlo.compare",
       "stablehlo.shift_left", "stablehlo.shift_right_arithmetic", "stablehlo.shift_right_logical",
       "stablehlo.popcnt", "stablehlo.count_leading_zeros"});
  set_no_derivative(registry, "quantized",
                    {"stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"});
  add_elementwise_expansions(registry);
}

}  // namespace

const OpFamily kElementwiseFamily{define_family, extend_family};

}  // namespace cleave
