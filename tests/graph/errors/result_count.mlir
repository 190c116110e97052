// 3:3: 2 result names for an op with 1 result
func.func @f(%a: tensor<f32>) {
  %0:2 = stablehlo.negate %a : tensor<f32>
  return
}
