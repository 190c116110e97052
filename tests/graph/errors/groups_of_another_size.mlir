// verify: replica_groups is a tensor<2x3xi64>, and each group must have 2 devices
func.func @main(%x: tensor<4x6xf32>) -> tensor<8x3xf32> {
  %0 = "stablehlo.all_to_all"(%x) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<4x6xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}
