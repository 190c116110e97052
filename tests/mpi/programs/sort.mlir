// Keys with their places, sorted; and the place of the greatest.
func.func @main(%x: tensor<5x9xi32>) -> (tensor<5x9xi32>, tensor<5x9xi32>) {
  %0 = stablehlo.iota dim = 1 : tensor<5x9xi32>
  %1:2 = "stablehlo.sort"(%x, %0) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %i: tensor<i32>, %j: tensor<i32>):
    %lt = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %lt : tensor<i1>
  }) {dimension = 1 : i64, is_stable = true} : (tensor<5x9xi32>, tensor<5x9xi32>) -> (tensor<5x9xi32>, tensor<5x9xi32>)
  return %1#0, %1#1 : tensor<5x9xi32>, tensor<5x9xi32>
}
