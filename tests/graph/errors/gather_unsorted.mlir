// verify: the collapsed or batching dimensions [1, 0] are not in order
func.func @main(%x: tensor<2x4x9xi32>, %i: tensor<5x2xi32>) -> tensor<5x8xi32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [1, 0], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 8>}> : (tensor<2x4x9xi32>, tensor<5x2xi32>) -> tensor<5x8xi32>
  return %0 : tensor<5x8xi32>
}
