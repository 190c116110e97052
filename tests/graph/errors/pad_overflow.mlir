// verify: of dimension 0 of 4 is out of range
func.func @main(%a: tensor<4xf32>, %v: tensor<f32>) -> tensor<4xf32> {
  %0 = stablehlo.pad %a, %v, low = [0], high = [0], interior = [9223372036854775807] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
