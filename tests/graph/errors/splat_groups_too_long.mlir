// verify: attribute 'replica_groups', tensor<1x4294967296xi8>, has more elements
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x4294967296xi8>}> : (tensor<2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
