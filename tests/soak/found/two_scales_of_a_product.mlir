// seed 5053927
func.func @main(%arg0: tensor<5x4x12x9xf32>, %arg1: tensor<3x3x9x2xf32>, %arg2: tensor<17x19xf32>, %arg3: tensor<19x23xf32>) -> (tensor<5x4x11x2xf32>, tensor<17x23xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<5x4x12x9xf32>, tensor<3x3x9x2xf32>) -> tensor<5x4x11x2xf32>
  %1 = stablehlo.negate %0 : tensor<5x4x11x2xf32>
  %2 = stablehlo.constant dense<3.0> : tensor<5x4x11x2xf32>
  %3 = stablehlo.add %1, %2 : tensor<5x4x11x2xf32>
  %4 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [1] x [0] : (tensor<17x19xf32>, tensor<19x23xf32>) -> tensor<17x23xf32>
  %5 = stablehlo.constant dense<2.0> : tensor<17x23xf32>
  %6 = stablehlo.multiply %4, %5 : tensor<17x23xf32>
  %7 = stablehlo.subtract %6, %5 : tensor<17x23xf32>
  return %3, %7 : tensor<5x4x11x2xf32>, tensor<17x23xf32>
}
