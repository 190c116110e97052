#include "cleave/discover/sample_texts.h"

namespace cleave {

std::string_view basic_sample_texts() {
  return R"mlir(
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
func.func @transpose(%arg0: tensor<5x3x4xf64>) -> tensor<4x5x3xf64> {
  %0 = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<5x3x4xf64>) -> tensor<4x5x3xf64>
  return %0 : tensor<4x5x3xf64>
}
func.func @broadcast_in_dim(%arg0: tensor<5x1xf64>) -> tensor<5x3x4xf64> {
  %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<5x1xf64>) -> tensor<5x3x4xf64>
  return %0 : tensor<5x3x4xf64>
}
func.func @slice(%arg0: tensor<7x5xf64>) -> tensor<3x5xf64> {
  %0 = stablehlo.slice %arg0 [1:6:2, 0:5] : (tensor<7x5xf64>) -> tensor<3x5xf64>
  return %0 : tensor<3x5xf64>
}
func.func @pad(%arg0: tensor<4x5xf64>, %arg1: tensor<f64>) -> tensor<8x5xf64> {
  %0 = stablehlo.pad %arg0, %arg1, low = [2, 0], high = [-1, 0], interior = [1, 0] : (tensor<4x5xf64>, tensor<f64>) -> tensor<8x5xf64>
  return %0 : tensor<8x5xf64>
}
func.func @concatenate(%arg0: tensor<4x5xf64>, %arg1: tensor<3x5xf64>) -> tensor<7x5xf64> {
  %0 = stablehlo.concatenate %arg0, %arg1, dim = 0 : (tensor<4x5xf64>, tensor<3x5xf64>) -> tensor<7x5xf64>
  return %0 : tensor<7x5xf64>
}
func.func @reverse(%arg0: tensor<4x5xf64>) -> tensor<4x5xf64> {
  %0 = stablehlo.reverse %arg0, dims = [0] : tensor<4x5xf64>
  return %0 : tensor<4x5xf64>
}
func.func @dot_general(%arg0: tensor<3x5x4xf64>, %arg1: tensor<3x4x7xf64>) -> tensor<3x5x7xf64> {
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x5x4xf64>, tensor<3x4x7xf64>) -> tensor<3x5x7xf64>
  return %0 : tensor<3x5x7xf64>
}
func.func @dot(%arg0: tensor<5x4xf64>, %arg1: tensor<4x7xf64>) -> tensor<5x7xf64> {
  %0 = stablehlo.dot %arg0, %arg1 : (tensor<5x4xf64>, tensor<4x7xf64>) -> tensor<5x7xf64>
  return %0 : tensor<5x7xf64>
}
func.func @reduce_add(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<5xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [1] : (tensor<5x4xf64>, tensor<f64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
func.func @reduce_max(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<4xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.maximum across dimensions = [0] : (tensor<5x4xf64>, tensor<f64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
func.func @reduce_window(%arg0: tensor<5x6xf64>, %arg1: tensor<f64>) -> tensor<5x5xf64> {
  %0 = "stablehlo.reduce_window"(%arg0, %arg1) <{window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<5x6xf64>, tensor<f64>) -> tensor<5x5xf64>
  return %0 : tensor<5x5xf64>
}
func.func @convolution(%arg0: tensor<3x7x2xf64>, %arg1: tensor<2x2x5xf64>) -> tensor<3x6x5xf64> {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x7x2xf64>, tensor<2x2x5xf64>) -> tensor<3x6x5xf64>
  return %0 : tensor<3x6x5xf64>
}
func.func @gather(%arg0: tensor<6x4xf64>, %arg1: tensor<5x1xi64> {discover.domain = "index", discover.limit = 6 : i64}) -> tensor<5x4xf64> {
  %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<6x4xf64>, tensor<5x1xi64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
func.func @scatter(%arg0: tensor<6x4xf64>, %arg1: tensor<5x1xi64> {discover.domain = "index", discover.limit = 6 : i64}, %arg2: tensor<5x4xf64>) -> tensor<6x4xf64> {
  %0 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<6x4xf64>, tensor<5x1xi64>, tensor<5x4xf64>) -> tensor<6x4xf64>
  return %0 : tensor<6x4xf64>
}
func.func @sort(%arg0: tensor<5x4xf64>) -> tensor<5x4xf64> {
  %0 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<5x4xf64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
func.func @dynamic_slice(%arg0: tensor<6x5xf64>, %arg1: tensor<i64>, %arg2: tensor<i64>) -> tensor<2x5xf64> {
  %0 = stablehlo.dynamic_slice %arg0, %arg1, %arg2, sizes = [2, 5] : (tensor<6x5xf64>, tensor<i64>, tensor<i64>) -> tensor<2x5xf64>
  return %0 : tensor<2x5xf64>
}
func.func @dynamic_update_slice(%arg0: tensor<6x5xf64>, %arg1: tensor<2x5xf64>, %arg2: tensor<i64>, %arg3: tensor<i64>) -> tensor<6x5xf64> {
  %0 = stablehlo.dynamic_update_slice %arg0, %arg1, %arg2, %arg3 : (tensor<6x5xf64>, tensor<2x5xf64>, tensor<i64>, tensor<i64>) -> tensor<6x5xf64>
  return %0 : tensor<6x5xf64>
}
func.func @select_and_scatter(%arg0: tensor<3x4xf64>, %arg1: tensor<3x2xf64>, %arg2: tensor<f64>) -> tensor<3x4xf64> {
  %0 = "stablehlo.select_and_scatter"(%arg0, %arg1, %arg2) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }, {
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<3x4xf64>, tensor<3x2xf64>, tensor<f64>) -> tensor<3x4xf64>
  return %0 : tensor<3x4xf64>
}
func.func @triangular_solve(%arg0: tensor<5x3x3xf64>, %arg1: tensor<5x3x2xf64>) -> tensor<5x3x2xf64> {
  %0 = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<5x3x3xf64>, tensor<5x3x2xf64>) -> tensor<5x3x2xf64>
  return %0 : tensor<5x3x2xf64>
}
func.func @clamp_scalar(%arg0: tensor<f64>, %arg1: tensor<5x3xf64>, %arg2: tensor<f64>) -> tensor<5x3xf64> {
  %0 = stablehlo.clamp %arg0, %arg1, %arg2 : (tensor<f64>, tensor<5x3xf64>, tensor<f64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @select_scalar(%arg0: tensor<i1>, %arg1: tensor<5x3xf64>, %arg2: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @compare(%arg0: tensor<5x3xf64>, %arg1: tensor<5x3xf64>) -> tensor<5x3xi1> {
  %0 = stablehlo.compare LT, %arg0, %arg1 : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xi1>
  return %0 : tensor<5x3xi1>
}
func.func @convert_wider(%arg0: tensor<5x3xf32>) -> tensor<5x3xf64> {
  %0 = stablehlo.convert %arg0 : (tensor<5x3xf32>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @convert_to_int(%arg0: tensor<5x3xf64>) -> tensor<5x3xi64> {
  %0 = stablehlo.convert %arg0 : (tensor<5x3xf64>) -> tensor<5x3xi64>
  return %0 : tensor<5x3xi64>
}
func.func @reduce_min(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<5xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.minimum across dimensions = [1] : (tensor<5x4xf64>, tensor<f64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
func.func @reduce_mul(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<4xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.multiply across dimensions = [0] : (tensor<5x4xf64>, tensor<f64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
func.func @reduce_add0(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<4xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [0] : (tensor<5x4xf64>, tensor<f64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
func.func @concatenate_columns(%arg0: tensor<4x5xf64>, %arg1: tensor<4x3xf64>) -> tensor<4x8xf64> {
  %0 = stablehlo.concatenate %arg0, %arg1, dim = 1 : (tensor<4x5xf64>, tensor<4x3xf64>) -> tensor<4x8xf64>
  return %0 : tensor<4x8xf64>
}
func.func @reverse_columns(%arg0: tensor<4x5xf64>) -> tensor<4x5xf64> {
  %0 = stablehlo.reverse %arg0, dims = [1] : tensor<4x5xf64>
  return %0 : tensor<4x5xf64>
}
func.func @reshape_split_two(%arg0: tensor<12x5xf64>) -> tensor<4x3x5xf64> {
  %0 = stablehlo.reshape %arg0 : (tensor<12x5xf64>) -> tensor<4x3x5xf64>
  return %0 : tensor<4x3x5xf64>
}
func.func @compare_eq(%arg0: tensor<5x3xf64>, %arg1: tensor<5x3xf64>) -> tensor<5x3xi1> {
  %0 = stablehlo.compare EQ, %arg0, %arg1 : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xi1>
  return %0 : tensor<5x3xi1>
}
func.func @compare_ge(%arg0: tensor<5x3xf64>, %arg1: tensor<5x3xf64>) -> tensor<5x3xi1> {
  %0 = stablehlo.compare GE, %arg0, %arg1 : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xi1>
  return %0 : tensor<5x3xi1>
}
func.func @sort_rows(%arg0: tensor<5x4xf64>) -> tensor<5x4xf64> {
  %0 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<5x4xf64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
)mlir";
}

}  // namespace cleave
