#include "cleave/ops/samples.h"
#include "cleave/ops/shape/family.h"

namespace cleave {

void add_shape_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.reshape", R"mlir(
func.func @reshape(%arg0: tensor<6x5xf64>) -> tensor<6x1x5xf64> {
  %0 = stablehlo.reshape %arg0 : (tensor<6x5xf64>) -> tensor<6x1x5xf64>
  return %0 : tensor<6x1x5xf64>
}
func.func @reshape_split(%arg0: tensor<12x5xf64>) -> tensor<12x5x1xf64> {
  %0 = stablehlo.reshape %arg0 : (tensor<12x5xf64>) -> tensor<12x5x1xf64>
  return %0 : tensor<12x5x1xf64>
}
func.func @reshape_merge(%arg0: tensor<12x5xf64>) -> tensor<60xf64> {
  %0 = stablehlo.reshape %arg0 : (tensor<12x5xf64>) -> tensor<60xf64>
  return %0 : tensor<60xf64>
}
func.func @reshape_split_two(%arg0: tensor<12x5xf64>) -> tensor<4x3x5xf64> {
  %0 = stablehlo.reshape %arg0 : (tensor<12x5xf64>) -> tensor<4x3x5xf64>
  return %0 : tensor<4x3x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.transpose", R"mlir(
func.func @transpose(%arg0: tensor<5x3x4xf64>) -> tensor<4x5x3xf64> {
  %0 = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<5x3x4xf64>) -> tensor<4x5x3xf64>
  return %0 : tensor<4x5x3xf64>
}
)mlir");
  set_samples(r, "stablehlo.broadcast_in_dim", R"mlir(
func.func @broadcast_in_dim(%arg0: tensor<5x1xf64>) -> tensor<5x3x4xf64> {
  %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<5x1xf64>) -> tensor<5x3x4xf64>
  return %0 : tensor<5x3x4xf64>
}
)mlir");
  set_samples(r, "stablehlo.slice", R"mlir(
func.func @slice(%arg0: tensor<7x5xf64>) -> tensor<3x5xf64> {
  %0 = stablehlo.slice %arg0 [1:6:2, 0:5] : (tensor<7x5xf64>) -> tensor<3x5xf64>
  return %0 : tensor<3x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.pad", R"mlir(
func.func @pad(%arg0: tensor<4x5xf64>, %arg1: tensor<f64>) -> tensor<8x5xf64> {
  %0 = stablehlo.pad %arg0, %arg1, low = [2, 0], high = [-1, 0], interior = [1, 0] : (tensor<4x5xf64>, tensor<f64>) -> tensor<8x5xf64>
  return %0 : tensor<8x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.concatenate", R"mlir(
func.func @concatenate(%arg0: tensor<4x5xf64>, %arg1: tensor<3x5xf64>) -> tensor<7x5xf64> {
  %0 = stablehlo.concatenate %arg0, %arg1, dim = 0 : (tensor<4x5xf64>, tensor<3x5xf64>) -> tensor<7x5xf64>
  return %0 : tensor<7x5xf64>
}
func.func @concatenate_columns(%arg0: tensor<4x5xf64>, %arg1: tensor<4x3xf64>) -> tensor<4x8xf64> {
  %0 = stablehlo.concatenate %arg0, %arg1, dim = 1 : (tensor<4x5xf64>, tensor<4x3xf64>) -> tensor<4x8xf64>
  return %0 : tensor<4x8xf64>
}
)mlir");
  set_samples(r, "stablehlo.reverse", R"mlir(
func.func @reverse(%arg0: tensor<4x5xf64>) -> tensor<4x5xf64> {
  %0 = stablehlo.reverse %arg0, dims = [0] : tensor<4x5xf64>
  return %0 : tensor<4x5xf64>
}
func.func @reverse_columns(%arg0: tensor<4x5xf64>) -> tensor<4x5xf64> {
  %0 = stablehlo.reverse %arg0, dims = [1] : tensor<4x5xf64>
  return %0 : tensor<4x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.broadcast", R"mlir(
func.func @broadcast(%arg0: tensor<5x3xf64>) -> tensor<2x5x3xf64> {
  %0 = stablehlo.broadcast %arg0, sizes = [2] : (tensor<5x3xf64>) -> tensor<2x5x3xf64>
  return %0 : tensor<2x5x3xf64>
}
)mlir");
}

}  // namespace cleave
