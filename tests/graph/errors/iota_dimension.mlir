// verify: iota_dimension 7 must lie in [0, 1)
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.iota dim = 7 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
