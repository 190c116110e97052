// verify: the sizes are [7], and tensor<12xf32> is declared
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<12xf32> {
  %s = stablehlo.constant dense<7> : tensor<1xi64>
  %0 = stablehlo.rng %a, %b, %s, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}
