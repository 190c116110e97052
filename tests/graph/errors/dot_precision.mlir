// verify: precision_config must name DEFAULT, HIGH or HIGHEST
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = "stablehlo.dot"(%x, %x) <{precision_config = ["FOO", #stablehlo<precision HIGHEST>]}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
