// verify: group_sizes tensor<9x3xi64> must have the sizes [2, 3] or [3]
func.func @main(%l: tensor<2x11x5xf32>, %r: tensor<3x2x5x7xf32>, %s: tensor<9x3xi64>) -> tensor<2x11x7xf32> {
  %0 = "chlo.ragged_dot"(%l, %r, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<2x11x5xf32>, tensor<3x2x5x7xf32>, tensor<9x3xi64>) -> tensor<2x11x7xf32>
  return %0 : tensor<2x11x7xf32>
}
