// verify: slice size 8 does not fit in dimension 0 of tensor<4xf32>
func.func @main(%x: tensor<4xf32>, %i: tensor<3x1xi32>) -> tensor<3x?xf32> {
  %s = stablehlo.constant dense<8> : tensor<1xi32>
  %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>}> : (tensor<4xf32>, tensor<3x1xi32>, tensor<1xi32>) -> tensor<3x?xf32>
  return %0 : tensor<3x?xf32>
}
