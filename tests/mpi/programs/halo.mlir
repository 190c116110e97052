// Windows that reach over the borders of shards.
func.func @main(%x: tensor<2x11x9x4xf32>, %k: tensor<3x3x4x6xf32>) -> (tensor<2x11x9x6xf32>, tensor<2x6x9x6xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x11x9x4xf32>, tensor<3x3x4x6xf32>) -> tensor<2x11x9x6xf32>
  %1 = "stablehlo.reduce_window"(%0, %low) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) {window_dimensions = array<i64: 1, 3, 1, 1>, window_strides = array<i64: 1, 2, 1, 1>, padding = dense<[[0, 0], [1, 1], [0, 0], [0, 0]]> : tensor<4x2xi64>} : (tensor<2x11x9x6xf32>, tensor<f32>) -> tensor<2x6x9x6xf32>
  return %0, %1 : tensor<2x11x9x6xf32>, tensor<2x6x9x6xf32>
}
