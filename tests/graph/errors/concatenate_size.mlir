// verify: is declared as tensor<9xf32>, but inferred as tensor<8xf32>
func.func @main(%a: tensor<4xf32>) -> tensor<9xf32> {
  %0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
