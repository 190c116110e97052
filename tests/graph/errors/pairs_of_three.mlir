// verify: source_target_pairs must be an n x 2 matrix, got tensor<2x3xi64>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1, 2], [2, 3, 4]]> : tensor<2x3xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
