#include "cleave/ops/dot/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_dot_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.dot_general", R"mlir(
func.func @dot_general(%arg0: tensor<3x5x4xf64>, %arg1: tensor<3x4x7xf64>) -> tensor<3x5x7xf64> {
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x5x4xf64>, tensor<3x4x7xf64>) -> tensor<3x5x7xf64>
  return %0 : tensor<3x5x7xf64>
}
)mlir");
  set_samples(r, "stablehlo.dot", R"mlir(
func.func @dot(%arg0: tensor<5x4xf64>, %arg1: tensor<4x7xf64>) -> tensor<5x7xf64> {
  %0 = stablehlo.dot %arg0, %arg1 : (tensor<5x4xf64>, tensor<4x7xf64>) -> tensor<5x7xf64>
  return %0 : tensor<5x7xf64>
}
)mlir");
  set_samples(r, "chlo.ragged_dot", R"mlir(
func.func @chlo_ragged_dot(%arg0: tensor<6x4xf64>, %arg1: tensor<3x4x5xf64>, %arg2: tensor<3xi64> {discover.domain = "index", discover.limit = 3 : i64}) -> tensor<6x5xf64> {
  %0 = "chlo.ragged_dot"(%arg0, %arg1, %arg2) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<6x4xf64>, tensor<3x4x5xf64>, tensor<3xi64>) -> tensor<6x5xf64>
  return %0 : tensor<6x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.einsum", R"mlir(
func.func @einsum(%arg0: tensor<5x4xf64>, %arg1: tensor<4x7xf64>) -> tensor<5x7xf64> {
  %0 = "stablehlo.einsum"(%arg0, %arg1) <{einsum_config = "ij,jk->ik"}> : (tensor<5x4xf64>, tensor<4x7xf64>) -> tensor<5x7xf64>
  return %0 : tensor<5x7xf64>
}
)mlir");
  set_samples(r, "stablehlo.unary_einsum", R"mlir(
func.func @unary_einsum(%arg0: tensor<5x4xf64>) -> tensor<5xf64> {
  %0 = "stablehlo.unary_einsum"(%arg0) <{einsum_config = "ij->i"}> : (tensor<5x4xf64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
)mlir");
}

}  // namespace cleave
