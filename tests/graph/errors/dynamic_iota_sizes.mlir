// verify: the sizes are [5], and tensor<4xf32> is declared
func.func @main() -> tensor<4xf32> {
  %0 = stablehlo.constant dense<5> : tensor<1xi64>
  %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi64>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
