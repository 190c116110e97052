// verify: @Eigh does not take (tensor<4xf32>)
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = stablehlo.custom_call @Eigh(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0 : tensor<4xf32>
}
