#include "cleave/ops/reduce/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_normalize_samples(OpRegistry& r) {
  set_samples(r, "cleave.softmax", R"mlir(
func.func @softmax(%arg0: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %0 = "cleave.softmax"(%arg0) : (tensor<5x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
)mlir");
  set_samples(r, "cleave.layer_norm", R"mlir(
func.func @layer_norm(%arg0: tensor<5x4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> tensor<5x4xf32> {
  %0 = "cleave.layer_norm"(%arg0, %arg1, %arg2) {epsilon = 1.0e-5 : f64} : (tensor<5x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
)mlir");
}

}  // namespace cleave
