#include "cleave/ops/chlo/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_chlo_samples(OpRegistry& r) {
  set_samples(r, "chlo.constant_like", R"mlir(
func.func @chlo_constant_like(%arg0: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = "chlo.constant_like"(%arg0) <{value = 2.5 : f64}> : (tensor<5x3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
  set_samples(r, "chlo.broadcast_compare", R"mlir(
func.func @chlo_broadcast_compare(%arg0: tensor<5x3xf64>, %arg1: tensor<3xf64>) -> tensor<5x3xi1> {
  %0 = "chlo.broadcast_compare"(%arg0, %arg1) <{comparison_direction = #chlo<comparison_direction LT>}> : (tensor<5x3xf64>, tensor<3xf64>) -> tensor<5x3xi1>
  return %0 : tensor<5x3xi1>
}
)mlir");
  set_samples(r, "chlo.broadcast_select", R"mlir(
func.func @chlo_broadcast_select(%arg0: tensor<5x3xi1>, %arg1: tensor<5x3xf64>, %arg2: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = "chlo.broadcast_select"(%arg0, %arg1, %arg2) : (tensor<5x3xi1>, tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
}

}  // namespace cleave
