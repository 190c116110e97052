// verify: is declared as tensor<3xi10>, but inferred as tensor<3xi1>
func.func @main(%x: tensor<3xf32>) -> tensor<3xi10> {
  %0 = "stablehlo.is_finite"(%x) : (tensor<3xf32>) -> tensor<3xi10>
  return %0 : tensor<3xi10>
}
