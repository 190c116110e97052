// seed 7000411
func.func @main(%arg3: tensor<i32>, %8: tensor<2xi32>) -> (tensor<2xi32>) {
  %13 = stablehlo.pad %8, %arg3, low = [2], high = [-2], interior = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  return %13 : tensor<2xi32>
}
