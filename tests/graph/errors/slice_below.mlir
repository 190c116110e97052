// verify: [-5:4:1] does not fit dimension 0 of tensor<4xf32>
func.func @main(%a: tensor<4xf32>) -> tensor<9xf32> {
  %0 = stablehlo.slice %a [-5:4] : (tensor<4xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
