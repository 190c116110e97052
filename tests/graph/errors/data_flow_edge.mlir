// verify: stands on a result of stablehlo.tanh
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  %1 = sdy.data_flow_edge %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
