// verify: padding makes dimension 0 of tensor<4xf32> one of 9, and tensor<4xf32> is declared
func.func @main(%x: tensor<4xf32>, %v: tensor<f32>) -> tensor<4xf32> {
  %p = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.dynamic_pad %x, %v, %p, %p, %p : (tensor<4xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
