// One function per op, for the batching rules: shapes, contractions, windows, reductions. Every public function is
// batched in every combination of arguments; those marked test.common stay the same for all examples.
func.func @reshape(%x: tensor<2x6xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.reshape %x : (tensor<2x6xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func @reshape_to_scalar(%x: tensor<1x1xf32>) -> tensor<f32> {
  %0 = stablehlo.reshape %x : (tensor<1x1xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @transpose(%x: tensor<5x2x4xf32>) -> tensor<4x5x2xf32> {
  %0 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<5x2x4xf32>) -> tensor<4x5x2xf32>
  return %0 : tensor<4x5x2xf32>
}
func.func @broadcast_in_dim(%x: tensor<5x1xf32>) -> tensor<5x3x4xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<5x1xf32>) -> tensor<5x3x4xf32>
  return %0 : tensor<5x3x4xf32>
}
func.func @broadcast(%x: tensor<5x2xf32>) -> tensor<4x3x5x2xf32> {
  %0 = stablehlo.broadcast %x, sizes = [4, 3] : (tensor<5x2xf32>) -> tensor<4x3x5x2xf32>
  return %0 : tensor<4x3x5x2xf32>
}
func.func @slice(%x: tensor<7x5xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.slice %x [1:6:2, 1:5] : (tensor<7x5xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func @reverse(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %0 = stablehlo.reverse %x, dims = [1] : tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
func.func @pad(%x: tensor<4x5xf32>, %v: tensor<f32>) -> tensor<8x4xf32> {
  %0 = stablehlo.pad %x, %v, low = [2, 0], high = [-1, -1], interior = [1, 0] : (tensor<4x5xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func @concatenate(%x: tensor<4x5xf32>, %y: tensor<4x2xf32>, %z: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.concatenate %x, %y, %z, dim = 1 : (tensor<4x5xf32>, tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @optimization_barrier(%x: tensor<4x5xf32>, %y: tensor<3xi32>) -> (tensor<4x5xf32>, tensor<3xi32>) {
  %0, %1 = stablehlo.optimization_barrier %x, %y : tensor<4x5xf32>, tensor<3xi32>
  return %0, %1 : tensor<4x5xf32>, tensor<3xi32>
}
func.func @iota_and_constant(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %0 = stablehlo.iota dim = 1 : tensor<4x5xf32>
  %1 = stablehlo.constant dense<3.0> : tensor<4x5xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<4x5xf32>
  %3 = stablehlo.add %x, %2 : tensor<4x5xf32>
  return %3 : tensor<4x5xf32>
}
func.func @unbatched_result(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = stablehlo.negate %x : tensor<4xf32>
  %1 = stablehlo.sine %y : tensor<2xf32>
  return %0, %1 : tensor<4xf32>, tensor<2xf32>
}
func.func @bitcast_narrow(%x: tensor<4x5xf32>) -> tensor<4x5x2xi16> {
  %0 = stablehlo.bitcast_convert %x : (tensor<4x5xf32>) -> tensor<4x5x2xi16>
  return %0 : tensor<4x5x2xi16>
}
func.func @bitcast_wide(%x: tensor<4x2xi16>) -> tensor<4xi32> {
  %0 = stablehlo.bitcast_convert %x : (tensor<4x2xi16>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
func.func @convert(%x: tensor<4x2xf32>) -> tensor<4x2xi32> {
  %0 = stablehlo.convert %x : (tensor<4x2xf32>) -> tensor<4x2xi32>
  return %0 : tensor<4x2xi32>
}
func.func @compare(%x: tensor<4x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xi1> {
  %0 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xi1>
  return %0 : tensor<4x2xi1>
}
func.func @select(%p: tensor<4x2xi1>, %x: tensor<4x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = stablehlo.select %p, %x, %y : tensor<4x2xi1>, tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
func.func @select_by_scalar(%p: tensor<i1>, %x: tensor<4x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = stablehlo.select %p, %x, %y : tensor<i1>, tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
func.func @select_scalars(%p: tensor<i1>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.select %p, %x, %y : tensor<i1>, tensor<f32>
  return %0 : tensor<f32>
}
func.func @clamp(%a: tensor<4x2xf32>, %x: tensor<4x2xf32>, %b: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = stablehlo.clamp %a, %x, %b : tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
func.func @clamp_by_scalars(%a: tensor<f32>, %x: tensor<4x2xf32>, %b: tensor<f32>) -> tensor<4x2xf32> {
  %0 = stablehlo.clamp %a, %x, %b : (tensor<f32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
func.func @reduce_precision(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = stablehlo.reduce_precision %x, format = e5m2 : tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
func.func @map(%x: tensor<4x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = "stablehlo.map"(%x, %y) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.subtract %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
func.func @dot_general(%x: tensor<3x5x4xf32>, %y: tensor<4x3x6xf32>) -> tensor<3x5x6xf32> {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<3x5x4xf32>, tensor<4x3x6xf32>) -> tensor<3x5x6xf32>
  return %0 : tensor<3x5x6xf32>
}
func.func @dot_general_free(%x: tensor<4x5xf32>, %y: tensor<6x4x2xf32>) -> tensor<5x6x2xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [1] : (tensor<4x5xf32>, tensor<6x4x2xf32>) -> tensor<5x6x2xf32>
  return %0 : tensor<5x6x2xf32>
}
func.func @dot_general_wider(%x: tensor<4x5xi8>, %y: tensor<5x2xi8>) -> tensor<4x2xi32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x5xi8>, tensor<5x2xi8>) -> tensor<4x2xi32>
  return %0 : tensor<4x2xi32>
}
func.func @dot_matrices(%x: tensor<5x4xf32>, %y: tensor<4x7xf32>) -> tensor<5x7xf32> {
  %0 = stablehlo.dot %x, %y : (tensor<5x4xf32>, tensor<4x7xf32>) -> tensor<5x7xf32>
  return %0 : tensor<5x7xf32>
}
func.func @dot_vectors(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<f32> {
  %0 = stablehlo.dot %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @einsum(%x: tensor<5x4x2xf32>, %y: tensor<4x7x2xf32>) -> tensor<7x2x5xf32> {
  %0 = stablehlo.einsum %x, %y, config = "ijk,jlk->lki" : (tensor<5x4x2xf32>, tensor<4x7x2xf32>) -> tensor<7x2x5xf32>
  return %0 : tensor<7x2x5xf32>
}
func.func @unary_einsum(%x: tensor<5x4x2xf32>) -> tensor<2x5xf32> {
  %0 = stablehlo.unary_einsum %x, config = "abc->ca" : (tensor<5x4x2xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
func.func @ragged_dot(%x: tensor<7x4xf32>, %y: tensor<3x4x2xf32>, %g: tensor<3xi32>) -> tensor<7x2xf32> {
  %s = stablehlo.constant dense<[2, 3, 1]> : tensor<3xi32>
  %m = stablehlo.minimum %s, %g : tensor<3xi32>
  %0 = "chlo.ragged_dot"(%x, %y, %m) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<7x4xf32>, tensor<3x4x2xf32>, tensor<3xi32>) -> tensor<7x2xf32>
  return %0 : tensor<7x2xf32>
}
func.func @ragged_dot_contract(%x: tensor<4x7xf32>, %y: tensor<7x2xf32>, %g: tensor<3xi32>) -> tensor<3x4x2xf32> {
  %s = stablehlo.constant dense<[2, 3, 2]> : tensor<3xi32>
  %m = stablehlo.minimum %s, %g : tensor<3xi32>
  %0 = "chlo.ragged_dot"(%x, %y, %m) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [1]>}> : (tensor<4x7xf32>, tensor<7x2xf32>, tensor<3xi32>) -> tensor<3x4x2xf32>
  return %0 : tensor<3x4x2xf32>
}
func.func @ragged_dot_batch(%x: tensor<2x7x4xf32>, %y: tensor<3x2x4x5xf32>, %g: tensor<3xi32>) -> tensor<2x7x5xf32> {
  %s = stablehlo.constant dense<[2, 3, 1]> : tensor<3xi32>
  %m = stablehlo.minimum %s, %g : tensor<3xi32>
  %0 = "chlo.ragged_dot"(%x, %y, %m) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<2x7x4xf32>, tensor<3x2x4x5xf32>, tensor<3xi32>) -> tensor<2x7x5xf32>
  return %0 : tensor<2x7x5xf32>
}
func.func @convolution(%x: tensor<2x7x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<2x6x5xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x7x4xf32>, tensor<3x4x5xf32>) -> tensor<2x6x5xf32>
  return %0 : tensor<2x6x5xf32>
}
func.func @convolution_feature_groups(%x: tensor<4x2x5x6xf32>, %k: tensor<6x2x2x3xf32>) -> tensor<2x6x4x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [f, b, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<4x2x5x6xf32>, tensor<6x2x2x3xf32>) -> tensor<2x6x4x4xf32>
  return %0 : tensor<2x6x4x4xf32>
}
func.func @convolution_batch_groups(%x: tensor<6x5x2xf32>, %k: tensor<2x2x4xf32>) -> tensor<3x4x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<6x5x2xf32>, tensor<2x2x4xf32>) -> tensor<3x4x4xf32>
  return %0 : tensor<3x4x4xf32>
}
func.func @dynamic_conv(%x: tensor<2x7x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<2x6x5xf32> {
  %p = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi64>
  %0 = "stablehlo.dynamic_conv"(%x, %k, %p) <{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, batch_group_count = 1 : i64, feature_group_count = 1 : i64, window_strides = array<i64: 1>}> : (tensor<2x7x4xf32>, tensor<3x4x5xf32>, tensor<1x2xi64>) -> tensor<2x6x5xf32>
  return %0 : tensor<2x6x5xf32>
}
func.func @reduce_sum(%x: tensor<5x4x2xf32>, %i: tensor<f32>) -> tensor<4xf32> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [0, 2] : (tensor<5x4x2xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @reduce_max(%x: tensor<5x4xi32>, %i: tensor<i32>) -> tensor<5xi32> {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [1] : (tensor<5x4xi32>, tensor<i32>) -> tensor<5xi32>
  return %0 : tensor<5xi32>
}
func.func @reduce_two(%x: tensor<5x4xf32>, %y: tensor<5x4xi32>, %i: tensor<f32>, %j: tensor<i32>) -> (tensor<5xf32>, tensor<5xi32>) {
  %0:2 = stablehlo.reduce(%x init: %i), (%y init: %j) across dimensions = [1] : (tensor<5x4xf32>, tensor<5x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<5xf32>, tensor<5xi32>)
   reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {
    %1 = stablehlo.compare GE, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %a, %c : tensor<i1>, tensor<f32>
    %3 = stablehlo.select %1, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<5xf32>, tensor<5xi32>
}
func.func @reduce_window(%x: tensor<5x6xf32>, %i: tensor<f32>) -> tensor<5x3xf32> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>, padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5x6xf32>, tensor<f32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
func.func @select_and_scatter(%x: tensor<3x4xf32>, %s: tensor<3x2xf32>, %i: tensor<f32>) -> tensor<3x4xf32> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>, padding = dense<0> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3x4xf32>, tensor<3x2xf32>, tensor<f32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func @sort(%x: tensor<5x4xf32>, %y: tensor<5x4xi32>) -> (tensor<5x4xf32>, tensor<5x4xi32>) {
  %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %s = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<5x4xf32>, tensor<5x4xi32>) -> (tensor<5x4xf32>, tensor<5x4xi32>)
  return %0#0, %0#1 : tensor<5x4xf32>, tensor<5x4xi32>
}
func.func @top_k(%x: tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0, %1 = chlo.top_k(%x, k = 2) : tensor<3x7xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0, %1 : tensor<3x2xf32>, tensor<3x2xi32>
}
func.func @cholesky(%x: tensor<2x3x3xf32>) -> tensor<2x3x3xf32> {
  %s = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %0 = stablehlo.cholesky %s, lower = true : tensor<2x3x3xf32>
  return %0 : tensor<2x3x3xf32>
}
func.func @triangular_solve(%a: tensor<5x3x3xf32>, %b: tensor<5x3x2xf32>) -> tensor<5x3x2xf32> {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<5x3x3xf32>, tensor<5x3x2xf32>) -> tensor<5x3x2xf32>
  return %0 : tensor<5x3x2xf32>
}
func.func @triangular_solve_right(%a: tensor<3x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func @fft(%x: tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = FFT, length = [8] : (tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>>
  return %0 : tensor<3x8xcomplex<f32>>
}
func.func @rfft(%x: tensor<4x6xf32>) -> tensor<4x4xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = RFFT, length = [4, 6] : (tensor<4x6xf32>) -> tensor<4x4xcomplex<f32>>
  return %0 : tensor<4x4xcomplex<f32>>
}
func.func @batch_norm_inference(%x: tensor<4x3x2xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<4x3x2xf32> {
  %w = stablehlo.multiply %v, %v : tensor<3xf32>
  %0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %w) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3x2xf32>
  return %0 : tensor<4x3x2xf32>
}
func.func @batch_norm_training(%x: tensor<4x3x2xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>) -> (tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>
}
func.func @batch_norm_grad(%x: tensor<4x3xf32>, %s: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>, %g: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %w = stablehlo.multiply %v, %v : tensor<3xf32>
  %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %w, %g) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>
}
func.func @constant_like(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = "chlo.constant_like"(%x) <{value = 2.5 : f32}> : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
