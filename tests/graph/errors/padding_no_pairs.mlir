// verify: padding must be an n x 2 matrix, got tensor<2x1xi64>
func.func @main(%x: tensor<4xf32>, %init: tensor<f32>) -> tensor<2xf32> {
  %0 = "stablehlo.reduce_window"(%x, %init) <{padding = dense<[[1], [1]]> : tensor<2x1xi64>, window_dimensions = array<i64: 2>, window_strides = array<i64: 3>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
