#include "cleave/ops/samples.h"
#include "cleave/ops/shape/family.h"

namespace cleave {

void add_dynamic_shape_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.dynamic_slice", R"mlir(
func.func @dynamic_slice(%arg0: tensor<6x5xf64>, %arg1: tensor<i64>, %arg2: tensor<i64>) -> tensor<2x5xf64> {
  %0 = stablehlo.dynamic_slice %arg0, %arg1, %arg2, sizes = [2, 5] : (tensor<6x5xf64>, tensor<i64>, tensor<i64>) -> tensor<2x5xf64>
  return %0 : tensor<2x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.dynamic_update_slice", R"mlir(
func.func @dynamic_update_slice(%arg0: tensor<6x5xf64>, %arg1: tensor<2x5xf64>, %arg2: tensor<i64>, %arg3: tensor<i64>) -> tensor<6x5xf64> {
  %0 = stablehlo.dynamic_update_slice %arg0, %arg1, %arg2, %arg3 : (tensor<6x5xf64>, tensor<2x5xf64>, tensor<i64>, tensor<i64>) -> tensor<6x5xf64>
  return %0 : tensor<6x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.dynamic_broadcast_in_dim", R"mlir(
func.func @dynamic_broadcast_in_dim(%arg0: tensor<5x1xf64>) -> tensor<5x3x4xf64> {
  %c = stablehlo.constant dense<[5, 3, 4]> : tensor<3xi64>
  %0 = stablehlo.dynamic_broadcast_in_dim %arg0, %c, dims = [0, 2] : (tensor<5x1xf64>, tensor<3xi64>) -> tensor<5x3x4xf64>
  return %0 : tensor<5x3x4xf64>
}
)mlir");
  set_samples(r, "stablehlo.dynamic_pad", R"mlir(
func.func @dynamic_pad(%arg0: tensor<4x5xf64>, %arg1: tensor<f64>) -> tensor<7x5xf64> {
  %low = stablehlo.constant dense<[2, 0]> : tensor<2xi64>
  %high = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %inner = stablehlo.constant dense<0> : tensor<2xi64>
  %0 = stablehlo.dynamic_pad %arg0, %arg1, %low, %high, %inner : (tensor<4x5xf64>, tensor<f64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<7x5xf64>
  return %0 : tensor<7x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.dynamic_reshape", R"mlir(
func.func @dynamic_reshape(%arg0: tensor<6x5xf64>) -> tensor<6x1x5xf64> {
  %c = stablehlo.constant dense<[6, 1, 5]> : tensor<3xi64>
  %0 = stablehlo.dynamic_reshape %arg0, %c : (tensor<6x5xf64>, tensor<3xi64>) -> tensor<6x1x5xf64>
  return %0 : tensor<6x1x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.real_dynamic_slice", R"mlir(
func.func @real_dynamic_slice(%arg0: tensor<7x5xf64>) -> tensor<3x5xf64> {
  %start = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %limit = stablehlo.constant dense<[4, 5]> : tensor<2xi64>
  %step = stablehlo.constant dense<1> : tensor<2xi64>
  %0 = stablehlo.real_dynamic_slice %arg0, %start, %limit, %step : (tensor<7x5xf64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3x5xf64>
  return %0 : tensor<3x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.get_dimension_size", R"mlir(
func.func @get_dimension_size(%arg0: tensor<5x3xf64>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<5x3xf64>) -> tensor<i32>
  return %0 : tensor<i32>
}
)mlir");
  set_no_sample(r, "stablehlo.set_dimension_size",
                "it makes a dynamic shape, and shards have static ones");
  set_no_sample(r, "stablehlo.dynamic_iota",
                "it makes a dynamic shape, and shards have static ones");
}

}  // namespace cleave
