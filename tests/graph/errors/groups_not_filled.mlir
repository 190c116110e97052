// verify: replica_groups [0, 1, 2, -1] has the id -1
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>}> : (tensor<2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
