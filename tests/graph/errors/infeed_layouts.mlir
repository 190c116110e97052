// verify: 1 layouts for 2 results beside the token
func.func @main(%t: !stablehlo.token) -> tensor<3x3xi32> {
  %0:3 = "stablehlo.infeed"(%t) <{layout = [[0, 1]]}> : (!stablehlo.token) -> (tensor<3x3xi32>, tensor<i1>, !stablehlo.token)
  return %0#0 : tensor<3x3xi32>
}
