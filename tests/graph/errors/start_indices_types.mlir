// verify: start indices must have one element type
func.func @main(%x: tensor<4x4xf32>, %i: tensor<i32>, %j: tensor<i64>) -> tensor<1x1xf32> {
  %0 = "stablehlo.dynamic_slice"(%x, %i, %j) <{slice_sizes = array<i64: 1, 1>}> : (tensor<4x4xf32>, tensor<i32>, tensor<i64>) -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}
