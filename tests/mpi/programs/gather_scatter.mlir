// Rows of a table by index, and sums into a table by index.
func.func @main(%table: tensor<10x6xi32>, %rows: tensor<7x1xi32>, %updates: tensor<7x6xi32>) -> (tensor<7x6xi32>, tensor<10x6xi32>) {
  %0 = "stablehlo.gather"(%table, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>}> : (tensor<10x6xi32>, tensor<7x1xi32>) -> tensor<7x6xi32>
  %1 = "stablehlo.scatter"(%table, %rows, %updates) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<10x6xi32>, tensor<7x1xi32>, tensor<7x6xi32>) -> tensor<10x6xi32>
  return %0, %1 : tensor<7x6xi32>, tensor<10x6xi32>
}
