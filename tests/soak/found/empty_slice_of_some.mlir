// seed 1000214
func.func @main(%1: tensor<7x6x3xf32>) -> (tensor<2x6x0xf32>) {
  %4 = stablehlo.slice %1 [1:3, 0:6, 0:0] : (tensor<7x6x3xf32>) -> tensor<2x6x0xf32>
  return %4 : tensor<2x6x0xf32>
}
