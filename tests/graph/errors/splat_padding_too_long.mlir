// verify: attribute 'padding', tensor<4294967294x2xi64>, has more elements than the 4194304
func.func @main(%x: tensor<8xf32>, %init: tensor<f32>) -> tensor<4xf32> {
  %0 = "stablehlo.reduce_window"(%x, %init) <{padding = dense<0> : tensor<4294967294x2xi64>, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
