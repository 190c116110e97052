// verify: dimension 0 of tensor<7xf32> is no multiple of that of tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<7xf32> {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
