// verify: dimension 1 of tensor<1x3xi32> must be 1 or the size of dimension 2 of tensor<2x1x1xi32>
func.func @main(%x: tensor<1x3xi32>) -> tensor<?x?x?xi32> {
  %s = stablehlo.constant dense<[2, 1, 1]> : tensor<3xi32>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : (tensor<1x3xi32>, tensor<3xi32>) -> tensor<?x?x?xi32>
  return %0 : tensor<?x?x?xi32>
}
