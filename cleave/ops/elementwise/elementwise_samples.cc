#include "cleave/ops/elementwise/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_elementwise_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.clamp", R"mlir(
func.func @clamp_scalar(%arg0: tensor<f64>, %arg1: tensor<5x3xf64>, %arg2: tensor<f64>) -> tensor<5x3xf64> {
  %0 = stablehlo.clamp %arg0, %arg1, %arg2 : (tensor<f64>, tensor<5x3xf64>, tensor<f64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
  set_samples(r, "stablehlo.select", R"mlir(
func.func @select_scalar(%arg0: tensor<i1>, %arg1: tensor<5x3xf64>, %arg2: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
  set_samples(r, "stablehlo.compare", R"mlir(
func.func @compare(%arg0: tensor<5x3xf64>, %arg1: tensor<5x3xf64>) -> tensor<5x3xi1> {
  %0 = stablehlo.compare LT, %arg0, %arg1 : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xi1>
  return %0 : tensor<5x3xi1>
}
func.func @compare_eq(%arg0: tensor<5x3xf64>, %arg1: tensor<5x3xf64>) -> tensor<5x3xi1> {
  %0 = stablehlo.compare EQ, %arg0, %arg1 : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xi1>
  return %0 : tensor<5x3xi1>
}
func.func @compare_ge(%arg0: tensor<5x3xf64>, %arg1: tensor<5x3xf64>) -> tensor<5x3xi1> {
  %0 = stablehlo.compare GE, %arg0, %arg1 : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xi1>
  return %0 : tensor<5x3xi1>
}
)mlir");
  set_samples(r, "stablehlo.convert", R"mlir(
func.func @convert_wider(%arg0: tensor<5x3xf32>) -> tensor<5x3xf64> {
  %0 = stablehlo.convert %arg0 : (tensor<5x3xf32>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @convert_to_int(%arg0: tensor<5x3xf64>) -> tensor<5x3xi64> {
  %0 = stablehlo.convert %arg0 : (tensor<5x3xf64>) -> tensor<5x3xi64>
  return %0 : tensor<5x3xi64>
}
)mlir");
  set_samples(r, "stablehlo.bitcast_convert", R"mlir(
func.func @bitcast_convert(%arg0: tensor<5x3xf64>) -> tensor<5x3xi64> {
  %0 = stablehlo.bitcast_convert %arg0 : (tensor<5x3xf64>) -> tensor<5x3xi64>
  return %0 : tensor<5x3xi64>
}
)mlir");
  set_samples(r, "stablehlo.map", R"mlir(
func.func @map(%arg0: tensor<5x3xf64>, %arg1: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = "stablehlo.map"(%arg0, %arg1) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.multiply %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
  set_samples(r, "stablehlo.reduce_precision", R"mlir(
func.func @reduce_precision(%arg0: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = stablehlo.reduce_precision %arg0, format = e8m10 : tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
}

}  // namespace cleave
