// verify: input and kernel must have one element type
func.func @main(%x: tensor<1x4x1xi64>, %k: tensor<3x1x1xi32>) -> tensor<1x2x1xi64> {
  %0 = "stablehlo.convolution"(%x, %k) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64}> : (tensor<1x4x1xi64>, tensor<3x1x1xi32>) -> tensor<1x2x1xi64>
  return %0 : tensor<1x2x1xi64>
}
