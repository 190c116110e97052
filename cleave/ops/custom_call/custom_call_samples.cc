#include "cleave/ops/custom_call/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_custom_call_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.custom_call", R"mlir(
func.func @custom_call_erf(%arg0: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = stablehlo.custom_call @mhlo.erf(%arg0) : (tensor<5x3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
}

}  // namespace cleave
