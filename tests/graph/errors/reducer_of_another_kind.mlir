// verify: the body folds tensor<f32>, which does not hold all of operand 0, tensor<4xi32>
func.func @main(%x: tensor<4xi32>, %init: tensor<f32>) -> tensor<2xf32> {
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xi32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
