// seed 1000182
func.func @main(%arg2: tensor<6x9x0xf32>) -> (tensor<3x2x0xf32>) {
  %6 = stablehlo.slice %arg2 [3:6, 5:7, 0:0] : (tensor<6x9x0xf32>) -> tensor<3x2x0xf32>
  return %6 : tensor<3x2x0xf32>
}
