#include "cleave/ops/random/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_random_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.rng_bit_generator", R"mlir(
func.func @rng_bit_generator(%arg0: tensor<2xui64>) -> (tensor<2xui64>, tensor<5x3xui32>) {
  %0:2 = stablehlo.rng_bit_generator %arg0, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5x3xui32>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<5x3xui32>
}
)mlir");
  set_no_sample(r, "stablehlo.rng", "it draws numbers: no function of its operands");
}

}  // namespace cleave
