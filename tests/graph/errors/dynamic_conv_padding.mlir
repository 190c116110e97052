// verify: padding must be 2 x 2 integers, got tensor<1x2xi64>
func.func @main(%x: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x4xf32>, %p: tensor<1x2xi64>) -> tensor<1x?x?x4xf32> {
  %0 = "stablehlo.dynamic_conv"(%x, %k, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>, tensor<1x2xi64>) -> tensor<1x?x?x4xf32>
  return %0 : tensor<1x?x?x4xf32>
}
