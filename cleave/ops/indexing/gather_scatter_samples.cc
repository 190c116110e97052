#include "cleave/ops/indexing/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_gather_scatter_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.gather", R"mlir(
func.func @gather(%arg0: tensor<6x4xf64>, %arg1: tensor<5x1xi64> {discover.domain = "index", discover.limit = 6 : i64}) -> tensor<5x4xf64> {
  %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<6x4xf64>, tensor<5x1xi64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
)mlir");
  set_samples(r, "stablehlo.scatter", R"mlir(
func.func @scatter(%arg0: tensor<6x4xf64>, %arg1: tensor<5x1xi64> {discover.domain = "index", discover.limit = 6 : i64}, %arg2: tensor<5x4xf64>) -> tensor<6x4xf64> {
  %0 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<6x4xf64>, tensor<5x1xi64>, tensor<5x4xf64>) -> tensor<6x4xf64>
  return %0 : tensor<6x4xf64>
}
)mlir");
  set_samples(r, "stablehlo.dynamic_gather", R"mlir(
func.func @dynamic_gather(%arg0: tensor<6x4xf64>, %arg1: tensor<5x1xi64> {discover.domain = "index", discover.limit = 6 : i64}) -> tensor<5x4xf64> {
  %c = stablehlo.constant dense<[1, 4]> : tensor<2xi64>
  %0 = "stablehlo.dynamic_gather"(%arg0, %arg1, %c) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<6x4xf64>, tensor<5x1xi64>, tensor<2xi64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
)mlir");
  set_samples(r, "stablehlo.torch_index_select", R"mlir(
func.func @torch_index_select(%arg0: tensor<5x6xf64>, %arg1: tensor<3xi64> {discover.domain = "index", discover.limit = 6 : i64}) -> tensor<5x3xf64> {
  %0 = "stablehlo.torch_index_select"(%arg0, %arg1) <{dim = 1 : i64, batch_dims = 0 : i64}> : (tensor<5x6xf64>, tensor<3xi64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
}

}  // namespace cleave
