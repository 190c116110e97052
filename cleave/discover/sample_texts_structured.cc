#include "cleave/discover/sample_texts.h"

namespace cleave {

std::string_view structured_sample_texts() {
  return R"mlir(
func.func @chlo_constant_like(%arg0: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = "chlo.constant_like"(%arg0) <{value = 2.5 : f64}> : (tensor<5x3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @chlo_ragged_dot(%arg0: tensor<6x4xf64>, %arg1: tensor<3x4x5xf64>, %arg2: tensor<3xi64> {discover.domain = "index", discover.limit = 3 : i64}) -> tensor<6x5xf64> {
  %0 = "chlo.ragged_dot"(%arg0, %arg1, %arg2) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<6x4xf64>, tensor<3x4x5xf64>, tensor<3xi64>) -> tensor<6x5xf64>
  return %0 : tensor<6x5xf64>
}
func.func @chlo_top_k(%arg0: tensor<5x4xf64>) -> (tensor<5x2xf64>, tensor<5x2xi32>) {
  %0:2 = "chlo.top_k"(%arg0) <{k = 2 : i64}> : (tensor<5x4xf64>) -> (tensor<5x2xf64>, tensor<5x2xi32>)
  return %0#0, %0#1 : tensor<5x2xf64>, tensor<5x2xi32>
}
func.func @chlo_scan(%arg0: tensor<4x3xf64>, %arg1: tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>) {
  %0:2 = "chlo.scan"(%arg0, %arg1) <{dimension = 0 : i64, is_reverse = false, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%x: tensor<3xf64>, %c: tensor<3xf64>):
    %s = stablehlo.add %x, %c : tensor<3xf64>
    stablehlo.return %s, %s : tensor<3xf64>, tensor<3xf64>
  }) : (tensor<4x3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>)
  return %0#0, %0#1 : tensor<4x3xf64>, tensor<3xf64>
}
func.func @batch_norm_inference(%arg0: tensor<5x3xf64>, %arg1: tensor<3xf64>, %arg2: tensor<3xf64>, %arg3: tensor<3xf64>, %arg4: tensor<3xf64> {discover.domain = "positive"}) -> tensor<5x3xf64> {
  %0 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg2, %arg3, %arg4) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @batch_norm_training(%arg0: tensor<5x3xf64>, %arg1: tensor<3xf64>, %arg2: tensor<3xf64>) -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0:3 = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg2) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %0#0, %0#1, %0#2 : tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>
}
func.func @batch_norm_grad(%arg0: tensor<5x3xf64>, %arg1: tensor<3xf64>, %arg2: tensor<3xf64>, %arg3: tensor<3xf64> {discover.domain = "positive"}, %arg4: tensor<5x3xf64>) -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0:3 = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg2, %arg3, %arg4) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<5x3xf64>) -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %0#0, %0#1, %0#2 : tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>
}
func.func @bitcast_convert(%arg0: tensor<5x3xf64>) -> tensor<5x3xi64> {
  %0 = stablehlo.bitcast_convert %arg0 : (tensor<5x3xf64>) -> tensor<5x3xi64>
  return %0 : tensor<5x3xi64>
}
func.func @broadcast(%arg0: tensor<5x3xf64>) -> tensor<2x5x3xf64> {
  %0 = stablehlo.broadcast %arg0, sizes = [2] : (tensor<5x3xf64>) -> tensor<2x5x3xf64>
  return %0 : tensor<2x5x3xf64>
}
func.func @cholesky(%arg0: tensor<5x3x3xf64> {discover.domain = "definite"}) -> tensor<5x3x3xf64> {
  %0 = stablehlo.cholesky %arg0, lower = true : tensor<5x3x3xf64>
  return %0 : tensor<5x3x3xf64>
}
func.func @custom_call_erf(%arg0: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = stablehlo.custom_call @mhlo.erf(%arg0) : (tensor<5x3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @dynamic_broadcast_in_dim(%arg0: tensor<5x1xf64>) -> tensor<5x3x4xf64> {
  %c = stablehlo.constant dense<[5, 3, 4]> : tensor<3xi64>
  %0 = stablehlo.dynamic_broadcast_in_dim %arg0, %c, dims = [0, 2] : (tensor<5x1xf64>, tensor<3xi64>) -> tensor<5x3x4xf64>
  return %0 : tensor<5x3x4xf64>
}
func.func @dynamic_gather(%arg0: tensor<6x4xf64>, %arg1: tensor<5x1xi64> {discover.domain = "index", discover.limit = 6 : i64}) -> tensor<5x4xf64> {
  %c = stablehlo.constant dense<[1, 4]> : tensor<2xi64>
  %0 = "stablehlo.dynamic_gather"(%arg0, %arg1, %c) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<6x4xf64>, tensor<5x1xi64>, tensor<2xi64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
func.func @dynamic_pad(%arg0: tensor<4x5xf64>, %arg1: tensor<f64>) -> tensor<7x5xf64> {
  %low = stablehlo.constant dense<[2, 0]> : tensor<2xi64>
  %high = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %inner = stablehlo.constant dense<0> : tensor<2xi64>
  %0 = stablehlo.dynamic_pad %arg0, %arg1, %low, %high, %inner : (tensor<4x5xf64>, tensor<f64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<7x5xf64>
  return %0 : tensor<7x5xf64>
}
func.func @dynamic_reshape(%arg0: tensor<6x5xf64>) -> tensor<6x1x5xf64> {
  %c = stablehlo.constant dense<[6, 1, 5]> : tensor<3xi64>
  %0 = stablehlo.dynamic_reshape %arg0, %c : (tensor<6x5xf64>, tensor<3xi64>) -> tensor<6x1x5xf64>
  return %0 : tensor<6x1x5xf64>
}
func.func @real_dynamic_slice(%arg0: tensor<7x5xf64>) -> tensor<3x5xf64> {
  %start = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %limit = stablehlo.constant dense<[4, 5]> : tensor<2xi64>
  %step = stablehlo.constant dense<1> : tensor<2xi64>
  %0 = stablehlo.real_dynamic_slice %arg0, %start, %limit, %step : (tensor<7x5xf64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3x5xf64>
  return %0 : tensor<3x5xf64>
}
func.func @einsum(%arg0: tensor<5x4xf64>, %arg1: tensor<4x7xf64>) -> tensor<5x7xf64> {
  %0 = "stablehlo.einsum"(%arg0, %arg1) <{einsum_config = "ij,jk->ik"}> : (tensor<5x4xf64>, tensor<4x7xf64>) -> tensor<5x7xf64>
  return %0 : tensor<5x7xf64>
}
func.func @unary_einsum(%arg0: tensor<5x4xf64>) -> tensor<5xf64> {
  %0 = "stablehlo.unary_einsum"(%arg0) <{einsum_config = "ij->i"}> : (tensor<5x4xf64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
func.func @fft(%arg0: tensor<5x4xcomplex<f64>>) -> tensor<5x4xcomplex<f64>> {
  %0 = stablehlo.fft %arg0, type = FFT, length = [4] : (tensor<5x4xcomplex<f64>>) -> tensor<5x4xcomplex<f64>>
  return %0 : tensor<5x4xcomplex<f64>>
}
func.func @ifft(%arg0: tensor<5x4xcomplex<f64>>) -> tensor<5x4xcomplex<f64>> {
  %0 = stablehlo.fft %arg0, type = IFFT, length = [4] : (tensor<5x4xcomplex<f64>>) -> tensor<5x4xcomplex<f64>>
  return %0 : tensor<5x4xcomplex<f64>>
}
func.func @rfft(%arg0: tensor<5x4xf64>) -> tensor<5x3xcomplex<f64>> {
  %0 = stablehlo.fft %arg0, type = RFFT, length = [4] : (tensor<5x4xf64>) -> tensor<5x3xcomplex<f64>>
  return %0 : tensor<5x3xcomplex<f64>>
}
func.func @map(%arg0: tensor<5x3xf64>, %arg1: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = "stablehlo.map"(%arg0, %arg1) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.multiply %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @reduce_precision(%arg0: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = stablehlo.reduce_precision %arg0, format = e8m10 : tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @rng_bit_generator(%arg0: tensor<2xui64>) -> (tensor<2xui64>, tensor<5x3xui32>) {
  %0:2 = stablehlo.rng_bit_generator %arg0, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5x3xui32>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<5x3xui32>
}
func.func @get_dimension_size(%arg0: tensor<5x3xf64>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<5x3xf64>) -> tensor<i32>
  return %0 : tensor<i32>
}
func.func @torch_index_select(%arg0: tensor<5x6xf64>, %arg1: tensor<3xi64> {discover.domain = "index", discover.limit = 6 : i64}) -> tensor<5x3xf64> {
  %0 = "stablehlo.torch_index_select"(%arg0, %arg1) <{dim = 1 : i64, batch_dims = 0 : i64}> : (tensor<5x6xf64>, tensor<3xi64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @dynamic_conv(%arg0: tensor<3x7x2xf64>, %arg1: tensor<2x2x5xf64>) -> tensor<3x6x5xf64> {
  %c = stablehlo.constant dense<0> : tensor<1x2xi64>
  %0 = "stablehlo.dynamic_conv"(%arg0, %arg1, %c) <{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<3x7x2xf64>, tensor<2x2x5xf64>, tensor<1x2xi64>) -> tensor<3x6x5xf64>
  return %0 : tensor<3x6x5xf64>
}
func.func @chlo_broadcast_compare(%arg0: tensor<5x3xf64>, %arg1: tensor<3xf64>) -> tensor<5x3xi1> {
  %0 = "chlo.broadcast_compare"(%arg0, %arg1) <{comparison_direction = #chlo<comparison_direction LT>}> : (tensor<5x3xf64>, tensor<3xf64>) -> tensor<5x3xi1>
  return %0 : tensor<5x3xi1>
}
func.func @chlo_broadcast_select(%arg0: tensor<5x3xi1>, %arg1: tensor<5x3xf64>, %arg2: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = "chlo.broadcast_select"(%arg0, %arg1, %arg2) : (tensor<5x3xi1>, tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
func.func @softmax(%arg0: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %0 = "cleave.softmax"(%arg0) : (tensor<5x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
func.func @layer_norm(%arg0: tensor<5x4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> tensor<5x4xf32> {
  %0 = "cleave.layer_norm"(%arg0, %arg1, %arg2) {epsilon = 1.0e-5 : f64} : (tensor<5x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
)mlir";
}

}  // namespace cleave
