// verify: dimension 0 of tensor<0xf32> is empty
func.func @main(%x: tensor<4xf32>) -> tensor<0xf32> {
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<0xf32>
  return %0 : tensor<0xf32>
}
