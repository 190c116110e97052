// seed 2000149
func.func @main(%arg3: tensor<9x1xi32>) -> (tensor<5x1xi32>) {
  %3 = stablehlo.constant dense<0> : tensor<i32>
  %4 = "stablehlo.reduce_window"(%arg3, %3) <{window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 2>, padding = dense<[[1, 1], [1, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<9x1xi32>, tensor<i32>) -> tensor<5x1xi32>
  return %4 : tensor<5x1xi32>
}
